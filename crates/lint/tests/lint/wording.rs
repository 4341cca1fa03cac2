//! Snapshots of all messages: the report of `lint` for the bad example of every rule, one snapshot
//! per family. To update them, run
//! `INSTA_UPDATE=always cargo test -p agentproto-lint --test lint wording`.

use crate::common::{Bundle, base_dir, reports};
use crate::rules::{needs_base, profile_for, unlinted_for};
use agentproto_lint::registry::FAMILIES;
use agentproto_lint::render::{Format, render};
use agentproto_lint::{Rule, compare_with_base};

fn printed(rule: &'static Rule) -> String {
    let example = rule.bad_example();
    let mut bundle = Bundle::new(example.bundle);
    bundle.apply(&example);
    let mut out = Vec::new();
    bundle.report(profile_for(rule), &unlinted_for(rule), |report, options| {
        if needs_base(rule) {
            compare_with_base(report, options, |path| std::fs::read_to_string(path).ok());
        }
        report.findings.retain(|f| f.rule == rule);
        report.files = vec![bundle.dir.join(example.file)];
        render(Format::Human, report, &reports::meta(&base_dir()), &mut out).expect("rendered");
    });
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn reports_of_bad_examples() {
    for family in FAMILIES {
        let rules = family
            .rules
            .iter()
            .filter(|r| !r.bad_example().bundle.is_empty());
        let pages: Vec<String> = rules
            .map(|rule| format!("{}\n\n{}", rule.slug, printed(rule)))
            .collect();
        if !pages.is_empty() {
            insta::assert_snapshot!(family.name, pages.join("\n"));
        }
    }
}
