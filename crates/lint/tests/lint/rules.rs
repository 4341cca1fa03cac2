//! Self-test of the rules: every rule is documented, reports its mutants at the right place, and
//! reports nothing for conforming variants. To test one rule or family, run
//! `RULES=SLUG-PREFIX cargo test -p agentproto-lint --test lint rules::`.

use std::collections::BTreeMap;

use crate::common::cases::cases;
use crate::common::{Bundle, base_dir, mark, markdown_below, repository};
use agentproto_lint::registry::FAMILIES;
use agentproto_lint::{Finding, FixKind, Profile, Rule, Safety, registry};

fn selected_rules() -> Vec<&'static Rule> {
    let prefix = std::env::var("RULES").unwrap_or_default();
    let rules: Vec<_> = registry::rules()
        .filter(|r| prefix.is_empty() || prefix.split(',').any(|p| r.slug.starts_with(p)))
        .collect();
    assert!(!rules.is_empty(), "RULES={prefix} matches nothing");
    rules
}

/// Whether a rule needs a base revision. Such rules are tested in `changed.rs`.
pub fn needs_base(rule: &Rule) -> bool {
    ["range-major-bump", "shape-version-bump"].contains(&rule.slug)
}

#[test]
fn base_bundles_are_clean_in_every_profile() {
    for entry in std::fs::read_dir(base_dir())
        .expect("fixtures/base")
        .flatten()
    {
        let bundle = Bundle::new(&entry.file_name().to_string_lossy());
        for profile in [Profile::Default, Profile::Spec, Profile::Reference] {
            let findings = bundle.lint(profile);
            let list: Vec<_> = findings
                .iter()
                .map(|f| {
                    format!(
                        "{}:{} {}: {}",
                        mark(&bundle, f),
                        f.start.line,
                        f.severity.as_str(),
                        f.message
                    )
                })
                .collect();
            assert!(list.is_empty(), "{profile:?}\n{}", list.join("\n"));
        }
    }
}

#[test]
fn every_rule_is_documented() {
    let mut gaps = Vec::new();
    let mut slugs = BTreeMap::new();
    for rule in selected_rules() {
        let mut need = |ok: bool, what: &str| {
            if !ok {
                gaps.push(format!("{}: {what}", rule.slug));
            }
        };
        need(
            !rule.title.is_empty() && !rule.title.ends_with('.'),
            "`title` is empty or ends with a period",
        );
        for (heading, text) in [
            ("What it checks", rule.what_it_checks()),
            ("Why", rule.why()),
        ] {
            need(
                text.len() >= 20 && text.ends_with('.'),
                &format!(
                    "`## {heading}` is missing, shorter than 20 characters, or does not end with \
                     a period"
                ),
            );
        }
        need(!rule.source.spec.is_empty(), "`source.spec` is empty");
        need(!rule.source.section.is_empty(), "`source.section` is empty");
        need(!rule.doctypes.is_empty(), "`doctypes` is empty");
        if !NOT_ABOUT_TEXT.contains(&rule.slug) {
            for (heading, example) in [
                ("Example", rule.bad_example()),
                ("Use instead", rule.good_example()),
            ] {
                need(
                    !example.bundle.is_empty(),
                    &format!(
                        "`## {heading}` is missing, or is not a line \"Over `BUNDLE/FILE`:\" or \
                         \"Whole `BUNDLE/FILE`:\", an empty line and a fenced block"
                    ),
                );
            }
        }
        let own = rule.source.spec == "agentproto" || rule.is_derived();
        let related_spec = ["AIP-9", "AIP-14", "AIP-17", "AIP-19", "AIP-36", "YAML 1.2"]
            .contains(&rule.source.spec);
        need(
            own || related_spec || !rule.decides.is_empty(),
            "`decides` names no requirement of suites/register.tsv",
        );
        need(
            slugs.insert(rule.slug, ()).is_none(),
            "the slug is used by two rules",
        );
    }
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
}

#[test]
fn every_page_belongs_to_a_rule() {
    let mut pages = Vec::new();
    markdown_below(&repository().join("crates/lint/src/rules"), &mut pages);
    let mut found: Vec<String> = Vec::new();
    for page in pages {
        let slug = page.file_stem().expect("a name").to_string_lossy();
        let rule = registry::find(&slug).unwrap_or_else(|| panic!("{slug} is not a rule"));
        let family = page.parent().and_then(|dir| dir.file_name());
        let own = FAMILIES.iter().find(|f| f.rules.contains(&rule));
        assert_eq!(
            family.and_then(|f| f.to_str()),
            own.map(|f| f.name),
            "{slug}"
        );
        let text = std::fs::read_to_string(&page).expect("a page");
        assert_eq!(rule.docs, text, "{slug}");
        assert!(text.starts_with(&format!("# {slug}\n")), "{slug}");
        found.push(slug.into_owned());
    }
    found.sort();
    let mut slugs: Vec<&str> = registry::rules().map(|r| r.slug).collect();
    slugs.sort_unstable();
    assert_eq!(found, slugs);
}

#[test]
fn bad_examples_trigger_their_rule_and_good_ones_do_not() {
    let mut wrong = Vec::new();
    for rule in selected_rules()
        .into_iter()
        .filter(|r| !r.bad_example().bundle.is_empty() && !needs_base(r))
    {
        let profile = profile_for(rule);
        let mut bad = Bundle::new(rule.bad_example().bundle);
        bad.apply(&rule.bad_example());
        let findings = bad.lint_without(profile, &unlinted_for(rule));
        if !findings.iter().any(|f| f.rule == rule) {
            let others: Vec<_> = findings.iter().map(|f| mark(&bad, f)).collect();
            wrong.push(format!(
                "{}: the bad example does not trigger it; found {others:?}",
                rule.slug
            ));
        }
        let mut good = Bundle::new(rule.good_example().bundle);
        good.apply(&rule.good_example());
        let findings = good.lint_without(profile, &unlinted_for(rule));
        for finding in findings.iter().filter(|f| f.rule == rule) {
            wrong.push(format!(
                "{}: the good example triggers it: {}",
                rule.slug, finding.message
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rules about files that cannot be shown as an example text.
const NOT_ABOUT_TEXT: [&str; 5] = [
    "fm-encoding",
    "file-too-large",
    "file-unreadable",
    "internal-fault",
    "manifest-link-escapes",
];

/// The profile to test a rule in. Some rules only run in profile `reference`.
pub fn profile_for(rule: &Rule) -> Profile {
    match rule.slug {
        "fm-known-drift-field" | "models-deny-hits-allowed" => Profile::Reference,
        _ => Profile::Default,
    }
}

/// Files that must not be linted themselves, because the rule only checks unlinted targets.
pub fn unlinted_for(rule: &Rule) -> Vec<String> {
    let named = ["acp-ref-valid", "auth-ref-secrets-valid"].contains(&rule.slug);
    named
        .then(|| rule.bad_example().file.to_owned())
        .into_iter()
        .collect()
}

#[test]
fn mutants_are_reported_at_the_right_place_and_conforming_variants_are_not() {
    let rules: Vec<_> = selected_rules()
        .into_iter()
        .filter(|r| !needs_base(r))
        .collect();
    let mut wrong = Vec::new();
    let mut killed: BTreeMap<&str, (usize, usize)> =
        rules.iter().map(|r| (r.slug, (0, 0))).collect();
    for case in cases()
        .iter()
        .filter(|c| rules.iter().any(|r| r.slug == c.rule))
    {
        let bundle = case.bundle();
        let marks: Vec<String> = bundle
            .lint_without(case.profile(), &case.unlinted)
            .iter()
            .map(|f| mark(&bundle, f))
            .collect();
        let counts = killed.get_mut(case.rule.as_str()).expect("filtered");
        if case.spare {
            counts.1 += 1;
            let own = format!("{}@", case.rule);
            if marks.iter().any(|m| m.starts_with(&own)) {
                wrong.push(format!(
                    "{case:?}\n  is a conforming variant, but found {marks:?}"
                ));
            }
            continue;
        }
        counts.0 += 1;
        let file = case
            .found_in
            .as_ref()
            .or(case.file.as_ref())
            .expect("a mutant names a file");
        let expected = format!("{}@{file}#{}", case.rule, case.at.as_deref().unwrap_or(""));
        let surplus: Vec<&String> = marks
            .iter()
            .filter(|m| {
                **m != expected && !case.also.iter().any(|a| m.starts_with(&format!("{a}@")))
            })
            .collect();
        // One mistake must have exactly one finding, not one from each of two families.
        let reported = marks.iter().filter(|m| **m == expected).count();
        if reported != 1 || !surplus.is_empty() {
            wrong.push(format!(
                "{case:?}\n  expected {expected}\n  found    {marks:?}"
            ));
        }
    }
    // No content of a file may cause this finding.
    killed.remove("internal-fault");
    for (slug, (kills, spared)) in killed {
        if kills == 0 {
            let family = family_of(slug);
            wrong.push(format!(
                "{slug}: has no mutant; add one with `at: POINTER` to \
                 fixtures/mutants/{family}.yaml"
            ));
        }
        if spared == 0 {
            let family = family_of(slug);
            wrong.push(format!(
                "{slug}: has no conforming variant; add one with `spare: true` to \
                 fixtures/mutants/{family}.yaml"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} problems\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn family_of(slug: &str) -> &'static str {
    let mut families = FAMILIES.iter();
    let own = families.find(|f| f.rules.iter().any(|r| r.slug == slug));
    own.expect("a rule of a family").name
}

/// The text of a finding's file after applying its safe fix.
fn fixed_text(bundle: &Bundle, finding: &Finding) -> Option<String> {
    let fix = finding.fix.as_ref().filter(|f| f.safety == Safety::Safe)?;
    let mut text = bundle.text(&bundle.name_of(finding));
    let mut edits = fix.edits.clone();
    edits.sort_by_key(|e| std::cmp::Reverse(e.span));
    for edit in edits {
        text.replace_range(edit.span.range(), &edit.text);
    }
    Some(text)
}

#[test]
fn safe_fixes_remove_their_finding_and_add_none() {
    let rules = selected_rules();
    let mut wrong = Vec::new();
    let mut bundles = Vec::new();
    for rule in rules.iter().filter(|r| !r.bad_example().bundle.is_empty()) {
        let mut bad = Bundle::new(rule.bad_example().bundle);
        bad.apply(&rule.bad_example());
        bundles.push((*rule, bad, profile_for(rule), unlinted_for(rule), true));
    }
    for case in cases().iter().filter(|c| !c.spare) {
        if let Some(rule) = rules.iter().find(|r| r.slug == case.rule) {
            let unlinted = case.unlinted.clone();
            bundles.push((*rule, case.bundle(), case.profile(), unlinted, false));
        }
    }
    for (rule, mut bundle, profile, unlinted, is_example) in bundles {
        let before = bundle.lint_without(profile, &unlinted);
        let Some(finding) = before.iter().find(|f| f.rule == rule) else {
            continue;
        };
        let Some(text) = fixed_text(&bundle, finding) else {
            if is_example && rule.fix == FixKind::Safe {
                wrong.push(format!("{}: the bad example has no safe fix", rule.slug));
            }
            continue;
        };
        if rule.fix != FixKind::Safe {
            wrong.push(format!(
                "{}: attaches a safe fix that it does not declare",
                rule.slug
            ));
        }
        let file = bundle.name_of(finding);
        bundle.set(&file, Some(text.clone()));
        let after = bundle.lint_without(profile, &unlinted);
        let count = |list: &[Finding]| list.iter().filter(|f| f.rule == rule).count();
        let known: Vec<_> = before.iter().map(|f| f.rule.slug).collect();
        let new: Vec<_> = after
            .iter()
            .filter(|f| !known.contains(&f.rule.slug))
            .map(|f| mark(&bundle, f))
            .collect();
        if count(&after) >= count(&before) || !new.is_empty() {
            wrong.push(format!(
                "{}: the fix does not remove the finding, or adds {new:?}\n{text}",
                rule.slug
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
