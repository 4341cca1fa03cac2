//! Rules that compare a manifest with its base revision. Here that is the one in `fixtures/base/`.

use crate::common::Bundle;
use agentproto_lint::rules::registry_wide::{
    RANGE_MAJOR_BUMP, SHAPE_VERSION_BUMP, compare_with_base,
};
use agentproto_lint::{Finding, LintOptions, Profile, Rule, RuleSet, lint_files};
use agentproto_manifest::{Disk, Document};

/// The findings when `change` is applied to the bundle and `file` is compared with its old text.
fn compared(bundle: &str, file: &str, change: impl Fn(&mut Bundle)) -> Vec<Finding> {
    let base = Bundle::new(bundle);
    let mut changed = Bundle::new(bundle);
    change(&mut changed);
    let parse = |bundle: &Bundle| Document::parse(bundle.dir.join(file), bundle.text(file));
    let rules = RuleSet::profile_defaults(Profile::Default);
    compare_with_base(&parse(&base), &parse(&changed), &rules)
}

fn marks(bundle: &str, file: &str, edits: &[(&str, &str)]) -> Vec<String> {
    let findings = compared(bundle, file, |bundle| {
        for (old, new) in edits {
            bundle.replace(file, old, new);
        }
    });
    findings
        .iter()
        .map(|f| format!("{}#{}", f.rule.slug, f.pointer))
        .collect()
}

#[test]
fn bad_examples_trigger_their_rule_and_good_ones_do_not() {
    for rule in [&RANGE_MAJOR_BUMP, &SHAPE_VERSION_BUMP] as [&'static Rule; 2] {
        let found = |example: &agentproto_lint::Example| {
            compared(example.bundle, example.file, |bundle| bundle.apply(example))
                .iter()
                .any(|f| f.rule == rule)
        };
        assert!(found(&rule.bad_example()), "{}", rule.slug);
        assert!(!found(&rule.good_example()), "{}", rule.slug);
    }
}

#[test]
fn a_new_major_version_of_the_binary_requires_one_of_the_manifest() {
    agentproto_suites::proves!("A29-ID-04");
    let range = "range-major-bump#/version_check/range";
    let old = "range: \">=3.2.0 <4.0.0\"";
    let with = |new: &str| marks("forge", "CLI.md", &[(old, new)]);
    assert_eq!(with("range: \">=3.2.0 <5.0.0\""), [range]);
    assert_eq!(with("range: ^4.0.0"), [range]);
    assert_eq!(with("range: \">=3.2.0\""), [range]);
    assert!(with("range: \">=3.9.0 <4.0.0\"").is_empty());
    assert_eq!(with("range: ~x"), [range]);
    assert!(with("range: nonsense").is_empty());
    let agent = "range: \">=0.9.0 <1.0.0\"";
    assert_eq!(
        marks("harbor", "AGENT-CLI.md", &[(agent, "range: ^1.0.0")]),
        [range]
    );
    let version = "version: 1.4.0";
    let both = |new: &str| marks("forge", "CLI.md", &[(old, "range: ^4.0.0"), (version, new)]);
    assert!(both("version: 2.0.0").is_empty());
    assert_eq!(both("version: 1.5.0"), [range]);
    // With another id it is a different bundle.
    let renamed = [(old, "range: ^4.0.0"), ("id: forge\n", "id: anvil\n")];
    assert!(marks("forge", "CLI.md", &renamed).is_empty());
}

#[test]
fn new_permissions_and_lost_methods_require_a_new_version() {
    agentproto_suites::proves!("A29-REQ-06");
    let shape = "shape-version-bump#/version";
    let pip = "  - method: pip\n    package: forge-wheel\n    user: true\n";
    let ingress = "    ingress:\n      - https://callback.forge.example/cli\n";
    assert_eq!(marks("forge", "CLI.md", &[(pip, "")]), [shape]);
    let version = "version: 1.4.0";
    for (bumped, expected) in [
        ("version: 1.4.1", vec![]),
        ("version: 1.3.9", vec![shape.to_owned()]),
    ] {
        assert_eq!(
            marks("forge", "CLI.md", &[(pip, ""), (version, bumped)]),
            expected
        );
    }
    let more = format!("{ingress}    dns:\n      - 10.0.0.1\n");
    assert_eq!(marks("forge", "CLI.md", &[(ingress, &more)]), [shape]);
    // Fewer permissions or an additional install method do not require a new version.
    assert!(marks("forge", "CLI.md", &[(ingress, "")]).is_empty());
    let cargo = format!("  - method: cargo\n    package: forge-crate\n{pip}");
    assert!(marks("forge", "CLI.md", &[(pip, &cargo)]).is_empty());
}

#[test]
fn a_panic_while_comparing_becomes_a_finding() {
    let path = crate::common::base_dir().join("forge/CLI.md");
    let rules = RuleSet::profile_defaults(Profile::Default);
    let options = LintOptions::new(&rules, &Disk, crate::common::base_dir());
    let mut report = lint_files(std::slice::from_ref(&path), &options);
    assert!(report.findings.is_empty());
    agentproto_lint::compare_with_base(&mut report, &options, |_| panic!("on purpose"));
    let slugs: Vec<_> = report.findings.iter().map(|f| f.rule.slug).collect();
    assert_eq!(slugs, ["internal-fault"]);
    assert!(report.source(&path).is_some());
}
