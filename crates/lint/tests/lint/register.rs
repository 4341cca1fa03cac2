//! The register of requirements (`suites/register.tsv`) and the rules must agree on which
//! requirements the rules check.

use std::collections::BTreeSet;

use agentproto_lint::rules::host;
use agentproto_lint::{Level, Profile, Rule, Severity, registry};
use agentproto_suites::register;

/// Rules that only `doctor` can check. The register names them, because no family contains them.
const HOST_RULES: [&Rule; 3] = [
    &host::HOST_OS_MISMATCH,
    &host::VC_PROBE_OUT_OF_RANGE,
    &host::OUT_MIXED_UNDECLARED,
];

#[test]
fn every_checked_requirement_is_in_the_register() {
    let known: BTreeSet<&str> = register().map(|s| s.id).collect();
    assert_eq!(known.len(), 791);
    let mut unknown = Vec::new();
    for rule in registry::rules().chain(HOST_RULES) {
        let ids = rule.decides.iter().filter(|id| !known.contains(*id));
        unknown.extend(ids.map(|id| {
            format!(
                "{} has {id} in `decides`, which is not in suites/register.tsv",
                rule.slug
            )
        }));
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn the_register_marks_the_requirements_that_rules_check() {
    let mut wrong = Vec::new();
    let mut marked = 0;
    for requirement in register() {
        let id = requirement.id;
        let deciders: Vec<&str> = registry::rules()
            .filter(|rule| rule.decides.contains(&id))
            .map(|rule| rule.slug)
            .collect();
        let says_rule = requirement.deciders().any(|decider| decider == "rule");
        marked += usize::from(says_rule);
        if says_rule && deciders.is_empty() {
            wrong.push(format!(
                "{id} is marked with `rule`, but no rule has it in `decides`; correct one of the two"
            ));
        }
        if !says_rule && !deciders.is_empty() {
            wrong.push(format!(
                "{id} is checked by {}; write `rule` first in the last column of its line in \
                 suites/register.tsv",
                deciders.join(", ")
            ));
        }
    }
    assert!(marked > 200, "{marked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_register_names_only_rules_that_need_a_host() {
    let named: BTreeSet<(&str, &str)> = register()
        .flat_map(|s| {
            let slugs = s.decided_by.split("rule:").skip(1);
            slugs.map(move |rest| {
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
                (&rest[..end.unwrap_or(rest.len())], s.id)
            })
        })
        .collect();
    let decided = HOST_RULES.iter();
    let decided: BTreeSet<(&str, &str)> = decided
        .flat_map(|rule| rule.decides.iter().map(|id| (rule.slug, *id)))
        .collect();
    assert_eq!(
        named, decided,
        "`rule:NAME` in suites/register.tsv, and `decides` in crates/lint/src/rules/host.rs; for a \
         rule of a family write `rule`"
    );
}

#[test]
fn errors_in_profile_spec_are_must_requirements() {
    for rule in registry::rules() {
        let severity = rule.severity_in(Profile::Spec);
        if rule.level == Level::Derived {
            assert_eq!(severity, None, "{}", rule.slug);
        }
        // `spec_severity` marks rules whose schema is stricter than the prose.
        if severity == Some(Severity::Error) && rule.spec_severity.is_none() {
            assert_eq!(
                rule.level,
                Level::Must,
                "{} is an error in profile spec: use `Level::Must`, or a lower severity",
                rule.slug
            );
        }
    }
}

#[test]
fn the_reference_mentions_every_contradiction() {
    let reference = agentproto_lint::render::docs::reference();
    let words: BTreeSet<&str> = reference
        .split(|c: char| !c.is_ascii_alphanumeric())
        .collect();
    for number in 1..=30 {
        let name = format!("C{number}");
        assert!(words.contains(name.as_str()), "no rule mentions {name}");
    }
    // `explain` prints the notes without the numbers, which only docs/rules.md explains.
    for rule in agentproto_lint::registry::rules() {
        let page = agentproto_lint::render::docs::markdown(rule, 1);
        let numbered = page.contains("each other (C") || page.contains("docs/rules.md");
        assert!(!numbered, "{page}");
    }
}
