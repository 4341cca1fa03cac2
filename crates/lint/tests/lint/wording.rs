//! Snapshots of all messages: the report of `lint` for the bad example of every rule, one snapshot
//! per family. To update them, run
//! `INSTA_UPDATE=always cargo test -p agentproto-lint --test lint wording`.

use crate::common::{Bundle, base_dir, reports};
use crate::rules::{needs_base, profile_for, unlinted_for};
use agentproto_lint::registry::FAMILIES;
use agentproto_lint::render::{Format, render};
use agentproto_lint::{Profile, Rule, compare_with_base};

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

/// Message and help of the only finding in a manifest with this name and frontmatter.
#[track_caller]
fn only_finding(rule: &str, file: &str, yaml: &str) -> (String, String) {
    let mut bundle = Bundle::new("quill");
    bundle.set(file, Some(format!("---\n{yaml}\n---\n")));
    let mut findings = bundle.lint(Profile::Default);
    findings.retain(|f| bundle.name_of(f) == file);
    let [finding] = &*findings else {
        panic!("{yaml:?} must have one finding: {findings:?}");
    };
    assert_eq!(finding.rule.slug, rule);
    (
        finding.message.clone(),
        finding.help.clone().unwrap_or_default(),
    )
}

#[test]
fn causes_of_syntax_errors() {
    let bracket = "this bracket is never closed";
    let comma = "a bracket or a comma is missing before this `:`";
    let quote = "there is text after the closing quote";
    let colon = "a key has no colon, here or on the line above";
    for (yaml, cause) in [
        ("install: [brew, npm\nbin: x", bracket),
        ("install: [brew, npm", bracket),
        ("install: {brew: 1, npm: 2\nbin: x", bracket),
        // The bracket is closed, but only after the next key.
        ("install: [brew, npm\nbin: x]", comma),
        // An unclosed bracket below the error is not its cause.
        ("name: x\nbin\ninstall: [brew", colon),
        ("title: 'it's'", quote),
        ("title: ['it's']", quote),
        ("title: \"two\" words", quote),
        (
            "bin\nname: x",
            "`: ` is not allowed here: the value contains it, the line is indented too far, or the line above has no colon",
        ),
        ("install: {brew:[x]}", "a space is missing after the colon"),
        ("bin:\tx: y", "a tab is used where YAML allows only spaces"),
        ("install: {brew: [", bracket),
        ("install: ]", "this bracket was never opened"),
        ("install: [brew, , npm]", "a value is missing here"),
    ] {
        let (message, help) = only_finding("fm-yaml-syntax", "x.CLI.md", yaml);
        let expected = format!("the frontmatter is not valid YAML: {cause}");
        assert_eq!(message, expected, "{yaml:?}");
        assert!(!help.is_empty(), "{yaml:?} has no help");
    }
}

#[test]
fn only_similar_file_names_are_proposed() {
    let help = |file| only_finding("fm-doctype-unknown", file, "title: x").1;
    assert_eq!(help("TOOLS.md"), "did you mean to name it `TOOL.md`?");
    let cased = "name it `TOOL.md`: file names are case-sensitive";
    assert_eq!(help("tool.md"), cased);
    for other in ["FOO.md", "NOTES.md", "x.md"] {
        let help = help(other);
        assert!(
            help.starts_with("name it after its format (CLI.md, "),
            "{help}"
        );
    }
}
