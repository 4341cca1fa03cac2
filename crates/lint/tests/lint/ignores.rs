//! Inline ignores and their effect on the report.

use crate::common::Bundle;
use agentproto_lint::edits::apply_edits;
use agentproto_lint::rules::registry_wide::compare_with_base;
use agentproto_lint::{Finding, FixOutcome, LintOptions, Profile, RuleSet, fix_documents};
use agentproto_manifest::Document;
use proptest::prelude::*;

/// The bundle quill with lines added after `bin`.
fn quill(lines: &str) -> Bundle {
    let mut bundle = Bundle::new("quill");
    bundle.replace(
        "AGENT-CLI.md",
        "bin: quill\n",
        &format!("bin: quill\n{lines}"),
    );
    bundle
}

fn lint(bundle: &Bundle) -> Vec<(&'static str, Option<String>)> {
    let findings: Vec<Finding> = bundle.lint(Profile::Default);
    findings
        .into_iter()
        .map(|f| (f.rule.slug, f.suppressed))
        .collect()
}

fn fixed(bundle: &Bundle) -> FixOutcome {
    let rules = RuleSet::profile_defaults(Profile::Default);
    let options = LintOptions::new(&rules, &bundle.files, &bundle.dir);
    fix_documents(&bundle.manifests(), &options, false)
}

const UNKNOWN: &str = "fm-unknown-field";

#[test]
fn the_reason_is_in_the_report() {
    for lines in [
        "surprise: 1 # agentproto: ignore[fm-unknown-field]   old   host\n",
        "# agentproto: ignore[fm-unknown-field] old host\nsurprise: 1\n",
        "surprise: # agentproto: ignore[fm-unknown-field] old host\n  - deep: 1\n",
        "surprise: | # agentproto: ignore[fm-unknown-field] old host\n  text\n",
        "surprise: 1\n# agentproto: ignore-file[fm-unknown-field] old host\n",
    ] {
        assert_eq!(
            lint(&quill(lines)),
            [(UNKNOWN, Some("old host".to_owned()))],
            "{lines}"
        );
    }
}

#[test]
fn an_ignore_without_a_reason_still_suppresses() {
    let found = lint(&quill(
        "surprise: 1 # agentproto: ignore[fm-unknown-field]\n",
    ));
    assert!(
        found.contains(&(UNKNOWN, Some("ignored inline".to_owned()))),
        "{found:?}"
    );
    assert!(found.contains(&("ignore-no-reason", None)));
    assert_eq!(found.len(), 2);
}

#[test]
fn other_lines_and_other_rules_still_count() {
    let found = lint(&quill(
        "surprise: 1 # agentproto: ignore[fm-enum] wrong rule\n",
    ));
    assert_eq!(found, [(UNKNOWN, None), ("ignore-unused", None)]);
    let found = lint(&quill(
        "surprise: 1 # agentproto: ignore[fm-unknown-field] this one\nother: 2\n",
    ));
    assert_eq!(
        found,
        [(UNKNOWN, Some("this one".to_owned())), (UNKNOWN, None)]
    );
}

#[test]
fn rules_about_ignores_can_be_ignored() {
    let found = lint(&quill(
        "# agentproto: ignore-file[ignore-unused] generated file\nother: 2 # agentproto: ignore[fm-unknown-field] a\n# agentproto: ignore[fm-enum] b\n",
    ));
    assert_eq!(
        found,
        [
            (UNKNOWN, Some("a".to_owned())),
            ("ignore-unused", Some("generated file".to_owned()))
        ]
    );
}

#[test]
fn ignores_of_rules_that_are_off_are_not_reported() {
    let bundle = quill("# agentproto: ignore[fm-enum] why\n");
    let mut rules = RuleSet::profile_defaults(Profile::Default);
    rules.ignore(&["fm-enum".to_owned()]).expect("known");
    let options = LintOptions::new(&rules, &bundle.files, &bundle.dir);
    let report = agentproto_lint::lint_files(&bundle.manifests(), &options);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn unused_ignores_are_removed() {
    let before = Bundle::new("quill").text("AGENT-CLI.md");
    for lines in [
        "# agentproto: ignore[fm-enum] alone\n",
        "# agentproto: ignore[fm-enum, fm-type] alone\n# agentproto: ignore-file[fm-range] again\n",
    ] {
        for crlf in [false, true] {
            let mut bundle = quill(lines);
            let mut expected = before.clone();
            if crlf {
                bundle.set(
                    "AGENT-CLI.md",
                    Some(bundle.text("AGENT-CLI.md").replace('\n', "\r\n")),
                );
                expected = expected.replace('\n', "\r\n");
            }
            let outcome = fixed(&bundle);
            assert_eq!(outcome.changed.len(), 1, "{:?}", outcome.report.findings);
            assert_eq!(outcome.changed[0].new, expected);
            assert!(outcome.report.findings.is_empty());
        }
    }
    let mut trailing = quill("");
    trailing.replace(
        "AGENT-CLI.md",
        "bin: quill\n",
        "bin: quill   # agentproto: ignore[fm-enum] x\n",
    );
    assert_eq!(fixed(&trailing).changed[0].new, before);
    let mut body = Bundle::new("quill");
    body.replace(
        "AGENT-CLI.md",
        "## Gotchas",
        "<!-- agentproto: ignore-file[fm-enum] x -->\n## Gotchas",
    );
    assert_eq!(fixed(&body).changed[0].new, before);
}

#[test]
fn only_unused_names_are_removed() {
    let outcome = fixed(&quill(
        "surprise: 1 # agentproto: ignore[fm-enum, fm-unknown-field, fm-range] old host\n",
    ));
    let new = &outcome.changed[0].new;
    assert!(
        new.contains("surprise: 1 # agentproto: ignore[fm-unknown-field] old host\n"),
        "{new}"
    );
    assert_eq!(outcome.applied, 1);
    assert_eq!(outcome.report.findings.len(), 1);
}

/// The bundle fleet with a second endpoint that has the same id as otter's. `line` is inserted
/// before that id.
fn duplicates(line: &str, version: &str) -> Bundle {
    let mut bundle = Bundle::new("fleet");
    let duplicate = bundle
        .text("adapters/otter/ACP.md")
        .replace("version: 0.1.0", &format!("version: {version}"))
        .replace("id: otter-acp", &format!("{line}id: otter-acp"));
    bundle.set("adapters/otter-next/ACP.md", Some(duplicate));
    bundle
}

#[test]
fn rules_that_need_all_files_can_be_ignored() {
    // The copy also has other findings.
    let found = |line: &str, version: &str| {
        let mut all = lint(&duplicates(line, version));
        all.retain(|(slug, _)| ["id-major-unique", "ignore-unused"].contains(slug));
        all
    };
    let line = "# agentproto: ignore[id-major-unique] renamed soon\n";
    let reason = Some("renamed soon".to_owned());
    assert_eq!(found(line, "0.2.0"), [("id-major-unique", reason)]);
    assert_eq!(found(line, "1.0.0"), [("ignore-unused", None)]);
    assert_eq!(found("", "0.2.0"), [("id-major-unique", None)]);
}

#[test]
fn rules_that_need_an_earlier_revision_can_be_ignored() {
    let line = "# agentproto: ignore-file[range-major-bump] an old host pins it\n";
    let bundle = quill(line);
    assert_eq!(lint(&bundle), []);
    let new = bundle
        .text("AGENT-CLI.md")
        .replace("range: \">=2.6.0 <3.0.0\"", "range: \">=2.6.0 <4.0.0\"");
    let old = Document::parse("AGENT-CLI.md", bundle.text("AGENT-CLI.md"));
    let new = Document::parse("AGENT-CLI.md", new);
    let rules = RuleSet::profile_defaults(Profile::Default);
    let found = compare_with_base(&old, &new, &rules);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].suppressed.as_deref(), Some("an old host pins it"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Directives in arbitrary text never cause a panic, and every fix can be applied.
    #[test]
    fn directives_in_any_text_can_be_linted(parts in prop::collection::vec(prop::sample::select(vec![
        "---\n", "\n", "\r\n", "a: 1", "b: |", "  ", "# ", "agentproto:", " ignore", "-file", "[", "]", ",",
        "fm-type", "ignore-unused", "fm-unknown-field", "ü", "\"", "'", "<!-- ", "-->", "```\n", "- ", ": ", "{", "}", "why",
    ]), 0..40)) {
        let text = format!("---\nname: x\n{}", parts.concat());
        let mut bundle = Bundle::new("quill");
        bundle.set("AGENT-CLI.md", Some(text.clone()));
        for finding in bundle.lint(Profile::Default) {
            prop_assert!(text.get(finding.span.range()).is_some() || bundle.name_of(&finding) != "AGENT-CLI.md");
            if let Some(fix) = finding.fix.filter(|_| finding.rule.slug == "ignore-unused") {
                prop_assert!(apply_edits(&text, &fix.edits).is_some());
            }
        }
    }
}
