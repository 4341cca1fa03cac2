//! Baselines: a known finding stays known when its lines move, and no other finding is suppressed.

use std::path::PathBuf;

use crate::common::Bundle;
use agentproto_lint::{
    Baseline, BaselineError, BaselineResult, LintOptions, Profile, Report, RuleSet, lint_files,
};

fn report(bundle: &Bundle) -> Report {
    let rules = RuleSet::profile_defaults(Profile::Default);
    let options = LintOptions::new(&rules, &bundle.files, &bundle.dir);
    lint_files(&bundle.manifests(), &options)
}

fn quill(lines: &str) -> Bundle {
    let mut bundle = Bundle::new("quill");
    bundle.replace(
        "AGENT-CLI.md",
        "bin: quill\n",
        &format!("bin: quill\n{lines}"),
    );
    bundle
}

fn file(bundle: &Bundle) -> PathBuf {
    bundle.dir.join("baseline.json")
}

/// The findings of `after` that still count when the baseline of `before` is applied.
fn left(before: &str, after: &str) -> (Vec<&'static str>, BaselineResult) {
    let known = quill(before);
    let baseline = Baseline::of(&report(&known), &file(&known));
    let mut report = report(&quill(after));
    let matched = baseline.apply(&mut report);
    let counting = report.findings.iter().filter(|f| f.counts());
    (counting.map(|f| f.rule.slug).collect(), matched)
}

#[test]
fn a_moved_finding_stays_known() {
    let found = left("surprise: 1\n", "tags_seen: []\n# moved\n\nsurprise:   1\n");
    assert_eq!(
        found,
        (
            vec!["fm-unknown-field"],
            BaselineResult { known: 1, stale: 0 }
        )
    );
    assert_eq!(left("surprise: 1\n", "surprise: 1\n").0, Vec::<&str>::new());
}

#[test]
fn only_the_listed_number_of_findings_is_suppressed() {
    // The same text occurs `n` times in one list.
    let twice = |n: usize| {
        let mut bundle = Bundle::new("quill");
        let item = "  - goal: more\n    prompt: Cut it.\n    surprise: 1\n".repeat(n);
        bundle.replace("AGENT-CLI.md", "examples:\n", &format!("examples:\n{item}"));
        bundle
    };
    let one = twice(1);
    let known = report(&one);
    assert_eq!(known.findings.len(), 1, "{:?}", known.findings);
    let baseline = Baseline::of(&known, &file(&one));
    let mut now = report(&twice(2));
    assert_eq!(
        baseline.apply(&mut now),
        BaselineResult { known: 1, stale: 0 }
    );
    let counting: Vec<bool> = now.findings.iter().map(|f| f.counts()).collect();
    assert_eq!(counting, [false, true]);
    let mut more = report(&twice(2));
    assert_eq!(Baseline::of(&now, &file(&one)).apply(&mut more).known, 2);
}

#[test]
fn a_changed_text_is_a_new_finding_and_the_old_entry_is_stale() {
    let (found, matched) = left("surprise: 1\n", "surprise: 2\n");
    assert_eq!(found, ["fm-unknown-field"]);
    assert_eq!(matched, BaselineResult { known: 0, stale: 1 });
    assert_eq!(
        left("surprise: 1\n", "").1,
        BaselineResult { known: 0, stale: 1 }
    );
}

#[test]
fn two_missing_fields_have_different_entries() {
    let without = |field: &str| {
        let mut bundle = Bundle::new("quill");
        bundle.replace("AGENT-CLI.md", field, "");
        bundle
    };
    let known = without("protocol: proprietary\n");
    let baseline = Baseline::of(&report(&known), &file(&known));
    let mut other = report(&without("version: 3.0.1\n"));
    let before = other.findings.len();
    assert!(before > 0);
    baseline.apply(&mut other);
    assert!(other.findings.iter().any(|f| f.counts()));
}

#[test]
fn ignored_findings_are_not_in_the_baseline() {
    let bundle = quill("surprise: 1 # agentproto: ignore[fm-unknown-field] old host\n");
    assert!(Baseline::of(&report(&bundle), &file(&bundle)).is_empty());
}

#[test]
fn files_outside_the_run_are_not_stale() {
    let bundle = quill("surprise: 1\n");
    let baseline = Baseline::of(&report(&bundle), &file(&bundle));
    let mut none = Report::default();
    assert_eq!(baseline.apply(&mut none), BaselineResult::default());
}

#[test]
fn baselines_are_written_atomically_and_match_the_schema() {
    let dir = tempfile::tempdir().expect("a directory");
    let bundle = quill("surprise: 1\nother: 2\n");
    let path = dir.path().join("known.json");
    let report = report(&bundle);
    Baseline::of(&report, &path).write(&path).expect("written");
    let text = std::fs::read_to_string(&path).expect("there");
    let loaded = Baseline::load(&path).expect("readable");
    assert_eq!(loaded, Baseline::of(&report, &path));
    assert_eq!(loaded.render(), text);
    assert_eq!(loaded.len(), 2);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../schemas/baseline.schema.json"))
            .expect("schema");
    assert!(jsonschema::is_valid(&schema, &json), "{text}");
    // Writing again replaces the file and leaves no other files in the directory.
    loaded.write(&path).expect("written");
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 1);
    assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
}

#[test]
fn paths_are_relative_with_forward_slashes() {
    let bundle = quill("surprise: 1\n");
    let report = report(&bundle);
    let inside = Baseline::of(&report, &file(&bundle)).render();
    assert!(inside.contains("\"path\": \"AGENT-CLI.md\""), "{inside}");
    let above = Baseline::of(&report, &bundle.dir.join("../baseline.json")).render();
    assert!(
        above.contains("\"path\": \"quill/AGENT-CLI.md\""),
        "{above}"
    );
    let sibling = Baseline::of(&report, &bundle.dir.join("../x/baseline.json")).render();
    assert!(
        sibling.contains("\"path\": \"../quill/AGENT-CLI.md\""),
        "{sibling}"
    );
}

#[test]
fn invalid_and_missing_baselines_are_different_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("known.json");
    assert!(matches!(
        Baseline::load(&path),
        Err(BaselineError::Missing(_))
    ));
    assert!(matches!(
        Baseline::load(dir.path()),
        Err(BaselineError::Read { .. })
    ));
    let entry = |inner: &str| {
        format!("{{\"schema\":\"agentproto.baseline/v1\",\"entries\":[{{{inner}}}]}}")
    };
    for text in [
        String::new(),
        "[]".to_owned(),
        "{\"schema\":\"agentproto.baseline/v2\",\"entries\":[]}".to_owned(),
        "{\"schema\":\"agentproto.baseline/v1\"}".to_owned(),
        entry("\"rule\":\"a\",\"path\":\"b\",\"fingerprint\":\"c\",\"count\":0"),
        entry("\"rule\":\"a\",\"path\":\"b\",\"fingerprint\":\"c\",\"count\":-1"),
        entry("\"rule\":\"a\",\"path\":\"\",\"fingerprint\":\"c\",\"count\":1"),
        entry("\"rule\":\"a\",\"path\":\"b\",\"count\":1"),
    ] {
        std::fs::write(&path, &text).expect("written");
        let result = Baseline::load(&path);
        assert!(
            matches!(result, Err(BaselineError::Invalid { .. })),
            "{text}: {result:?}"
        );
    }
    std::fs::write(&path, b"\xff\xfe").expect("written");
    assert!(matches!(
        Baseline::load(&path),
        Err(BaselineError::Invalid { .. })
    ));
    let huge = format!("{}", u64::MAX);
    let twice = format!("{{\"rule\":\"a\",\"path\":\"b\",\"fingerprint\":\"c\",\"count\":{huge}}}");
    std::fs::write(
        &path,
        format!("{{\"schema\":\"agentproto.baseline/v1\",\"entries\":[{twice},{twice}]}}"),
    )
    .expect("written");
    assert_eq!(Baseline::load(&path).expect("readable").len(), usize::MAX);
}
