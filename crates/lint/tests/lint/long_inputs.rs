//! Lints manifests that are far longer than any real one. The time must not grow quadratically with
//! the length. The limit is generous: quadratic loops would take many minutes for each of these.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::common::{Bundle, overlay};
use agentproto_lint::{Finding, Profile};

const MOST: Duration = Duration::from_secs(60);

/// The findings of a fixture with some fields replaced.
fn lint(bundle: &str, file: &str, fields: &str) -> Vec<Finding> {
    let mut bundle = Bundle::new(bundle);
    let text = overlay(&bundle.text(file), fields);
    bundle.set(file, Some(text));
    let start = Instant::now();
    let findings = bundle.lint(Profile::Default);
    assert!(start.elapsed() < MOST, "{:?}", start.elapsed());
    findings
}

fn count(findings: &[Finding], slug: &str) -> usize {
    findings.iter().filter(|f| f.rule.slug == slug).count()
}

fn lines(n: usize, line: impl Fn(usize) -> String) -> String {
    (0..n).fold(String::new(), |mut out, i| {
        writeln!(out, "{}", line(i)).expect("writing to a string");
        out
    })
}

#[test]
fn lists_of_20_000_modes() {
    let mode = |i: usize| format!("  - id: mode-{i}\n    description: Number {i}.");
    let unique = format!("modes:\n{}", lines(20_000, mode));
    assert_eq!(
        count(&lint("quill", "AGENT-CLI.md", &unique), "mode-id-unique"),
        0
    );
    let same = format!("modes:\n{}", lines(20_000, |_| mode(1)));
    let findings = lint("quill", "AGENT-CLI.md", &same);
    assert_eq!(count(&findings, "mode-id-unique"), 19_999);
}

#[test]
fn lists_of_20_000_tags() {
    let unique = format!("tags:\n{}", lines(20_000, |i| format!("  - tag-{i}")));
    lint("quill", "AGENT-CLI.md", &unique);
    let same = format!("tags:\n{}", lines(20_000, |i| format!("  - tag-{}", i / 2)));
    let findings = lint("quill", "AGENT-CLI.md", &same);
    let twice = findings
        .iter()
        .filter(|f| f.pointer.starts_with("/tags/"))
        .count();
    assert_eq!(twice, 10_000);
}

#[test]
fn mappings_of_50_000_keys() {
    let keys = format!("metadata:\n{}", lines(50_000, |i| format!("  key{i}: {i}")));
    lint("quill", "AGENT-CLI.md", &keys);
    // Files with CRLF are parsed by the YAML library instead of the fast parser.
    let mut bundle = Bundle::new("quill");
    let text = overlay(&bundle.text("AGENT-CLI.md"), &keys).replace('\n', "\r\n");
    bundle.set("AGENT-CLI.md", Some(text));
    let start = Instant::now();
    bundle.lint(Profile::Default);
    assert!(start.elapsed() < MOST, "{:?}", start.elapsed());
}

#[test]
fn thousands_of_unknown_fields_on_one_line() {
    // At most 1,000 unknown fields are reported per mapping.
    let fields: Vec<String> = (0..50_000).map(|i| format!("field{i}: é")).collect();
    let text = format!("continuation: {{default: none, {}}}\n", fields.join(", "));
    let findings = lint("quill", "AGENT-CLI.md", &text);
    assert_eq!(count(&findings, "fm-unknown-field"), 1_000);
    let rest: Vec<&str> = findings
        .iter()
        .filter(|f| f.message.contains("not listed"))
        .map(|f| f.message.as_str())
        .collect();
    assert_eq!(
        rest,
        ["unknown field `field999` in `continuation`; 49000 more unknown fields are not listed"]
    );
}

#[test]
fn the_last_unknown_field_says_how_many_are_not_listed() {
    let notes = |fields: usize, key: &dyn Fn(usize) -> String| -> Vec<String> {
        // The unknown field of another mapping is not counted.
        let text = format!(
            "{}continuation:\n  default: none\n  supported: [none]\n  odd: 1\n",
            lines(fields, |i| format!("{}: 1", key(i)))
        );
        let findings = lint("quill", "AGENT-CLI.md", &text);
        let reported = findings.iter().map(|f| f.message.as_str());
        reported
            .filter_map(|m| m.split_once("; ").map(|(_, note)| note.to_owned()))
            .filter(|note| note.contains("not listed"))
            .collect()
    };
    let named = |i: usize| format!("field{i}");
    assert_eq!(notes(1_000, &named), [""; 0]);
    assert_eq!(notes(1_001, &named), ["1 more unknown field is not listed"]);
    assert_eq!(
        notes(1_003, &named),
        ["3 more unknown fields are not listed"]
    );
    // Another rule reports the last field, so the note is added to the one before it.
    let odd = |i: usize| match i {
        999 => "999".to_owned(),
        _ => named(i),
    };
    assert_eq!(notes(1_002, &odd), ["2 more unknown fields are not listed"]);
}

#[test]
fn thousands_of_steps_that_refer_to_each_other() {
    let step = |i: usize| {
        format!(
            "  - id: s{i}\n    kind: prompt\n    prompt: p\n    persist:\n      cmd: x ${{input.s{}}}",
            i + 1
        )
    };
    let findings = lint(
        "forge",
        "CLI.md",
        &format!("setup:\n{}", lines(5_000, step)),
    );
    assert!(count(&findings, "setup-interp-forward-ref") >= 5_000);
}

#[test]
fn words_of_a_megabyte() {
    let word = "x".repeat(1 << 20);
    lint(
        "quill",
        "AGENT-CLI.md",
        &format!("{}: 1\nprotocol: {word}\n", &word[..400]),
    );
    lint(
        "quill",
        "AGENT-CLI.md",
        &format!("modes:\n  - id: a\n    {}: {word}\n", &word[..900]),
    );
}

#[test]
fn merges_of_thousands_of_keys() {
    let base: Vec<String> = (0..10_000).map(|i| format!("k{i}: {i}")).collect();
    let own = lines(10_000, |i| format!("    k{i}: own"));
    let fields = format!(
        "metadata:\n  a: &a {{{}}}\n  b:\n    <<: *a\n{own}",
        base.join(", ")
    );
    lint("quill", "AGENT-CLI.md", &fields);
}
