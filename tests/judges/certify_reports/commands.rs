//! `agentproto report`, run as a process.

use std::path::{Path, PathBuf};
use std::process::Output;

use agentproto_harness::model::{Report, Verdict};
use agentproto_harness::render::{RenderOptions, write_all};
use assert_cmd::Command;

use crate::certify_reports::formats::assert_harmless;
use crate::certify_reports::{events, sample};

fn report(dir: &Path, args: &[&str]) -> Output {
    Command::cargo_bin("agentproto")
        .expect("binary")
        .current_dir(dir)
        .env("COLUMNS", "100")
        .arg("report")
        .args(args)
        .output()
        .expect("runs")
}

#[track_caller]
fn ends(output: &Output, code: i32) -> String {
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{err}");
    assert!(!err.contains("panicked"), "{err}");
    err
}

fn save(dir: &Path, name: &str, report: &Report) -> PathBuf {
    let path = dir.join(name);
    let text = serde_json::to_string(report).expect("JSON");
    std::fs::write(&path, text).expect("written");
    path
}

/// Saves the clean sample as two shards.
fn shards(dir: &Path) {
    for i in 1..=2 {
        let mut shard = sample::clean();
        shard.shard = Some(format!("{i}/2"));
        let mine = |n: usize| n % 2 == i - 1;
        let mut n = 0;
        shard.results.retain_mut(|row| {
            n += 1;
            row.case = format!("{}-{n}", row.case);
            mine(n)
        });
        shard.summarize();
        save(dir, &format!("{i}.json"), &shard);
    }
}

#[test]
fn render_prints_a_saved_report_in_any_format() {
    let dir = tempfile::tempdir().expect("a directory");
    save(dir.path(), "r.json", &sample::vendor());
    let starts = [
        ("human", "NOT CERTIFIED: 2 failed"),
        ("json", "{\n  \"schema\": \"agentproto.certify/v1\""),
        ("jsonl", r#"{"type":"aoi:meta","tool":"agentproto""#),
        ("junit", "<?xml"),
        ("sarif", "{\n  \"$schema\""),
        ("html", "<!doctype html>"),
        ("markdown", "**ACP v1: 3 failing**"),
        ("badge", "<svg"),
        ("badge-json", "{\n  \"schemaVersion\": 1"),
    ];
    for (format, start) in starts {
        let output = report(dir.path(), &["render", "r.json", "--output", format]);
        assert_eq!(ends(&output, 0), "");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(text.starts_with(start), "{format}: {text}");
    }
    let output = report(dir.path(), &["render", "r.json", "--report-dir", "all"]);
    ends(&output, 0);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("all/report.html shows every row"), "{text}");
    assert!(dir.path().join("all/report.sarif").is_file());
}

#[test]
fn merge_has_the_verdict_of_the_whole_run() {
    let dir = tempfile::tempdir().expect("a directory");
    shards(dir.path());
    let output = report(dir.path(), &["merge", "2.json", "1.json", "-o", "json"]);
    ends(&output, 0);
    let merged: Report = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(merged.summary.certified);
    assert_eq!(merged.results.len(), sample::clean().results.len());

    let mut second: Report =
        agentproto_harness::render::load(&dir.path().join("2.json")).expect("a report");
    second.results[0].verdict = Verdict::Fail;
    save(dir.path(), "2.json", &second);
    let output = report(dir.path(), &["merge", "1.json", "2.json"]);
    ends(&output, 1);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.starts_with("NOT CERTIFIED: 1 failed"), "{text}");

    let whole = report(dir.path(), &["merge", "1.json", "2.json", "-o", "json"]);
    std::fs::write(dir.path().join("old.json"), whole.stdout).expect("written");
    let args = ["merge", "1.json", "2.json", "--baseline", "old.json"];
    ends(&report(dir.path(), &args), 0);
}

#[test]
fn mismatched_shards_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    shards(dir.path());
    let err = ends(&report(dir.path(), &["merge", "1.json"]), 65);
    assert!(err.contains("missing shards (of 2): 2"), "{err}");
    let err = ends(
        &report(dir.path(), &["merge", "1.json", "2.json", "1.json"]),
        65,
    );
    assert!(err.contains("duplicate shard 1: reports 1 and 3"), "{err}");
    assert!(err.contains("1 1.json, 2 2.json, 3 1.json"), "{err}");
    let output = report(dir.path(), &["merge", "1.json", "-o", "jsonl"]);
    ends(&output, 65);
    let events = events(std::str::from_utf8(&output.stdout).expect("UTF-8"));
    assert_eq!(events[0]["command"], "report merge");
    assert_eq!(events[1]["type"], "aoi:error");
    ends(&report(dir.path(), &["merge"]), 64);
}

#[test]
fn invalid_files_are_reported_with_a_position() {
    let dir = tempfile::tempdir().expect("a directory");
    let write =
        |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
    write(
        "broken.json",
        "{\"schema\": \"agentproto.certify/v1\",\n \"tool\": ",
    );
    write("lint.json", "{\"schema\": \"agentproto.lint/v1\"}");
    write("none.json", "[1]");
    write(
        "old.json",
        "{\"schema\": \"agentproto.certify/v1\", \"tool\": {\"name\": \"a\"}}",
    );
    let deep = format!("{{\"schema\": {}", "[".repeat(100_000));
    write("deep.json", &deep);
    let cases = [
        ("missing.json", 66, "does not exist"),
        (
            "broken.json",
            65,
            "is not valid JSON: EOF while parsing a value at line 2",
        ),
        (
            "lint.json",
            65,
            "`schema` must be `agentproto.certify/v1`, found `agentproto.lint/v1`",
        ),
        ("none.json", 65, "`schema` is missing"),
        ("old.json", 65, "missing field `version`"),
        ("deep.json", 65, "recursion limit"),
        (".", 74, "cannot be read"),
    ];
    for (name, code, rows_with_texts) in cases {
        let err = ends(&report(dir.path(), &["render", name]), code);
        assert!(err.contains(rows_with_texts), "{name}: {err}");
    }
    save(dir.path(), "good.json", &sample::vendor());
    let args = ["render", "good.json", "--report-dir", "good.json"];
    let err = ends(&report(dir.path(), &args), 73);
    assert!(err.contains("`good.json` cannot be written"), "{err}");
    ends(
        &report(dir.path(), &["render", "good.json", "-o", "xml"]),
        64,
    );
}

#[test]
fn an_index_shows_every_agent_by_section() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path();
    write_all(
        &sample::vendor(),
        &root.join("hermes"),
        &RenderOptions::default(),
    )
    .expect("written");
    let mut other = sample::clean();
    other.target.info["title"] = "Clean & <b>quick</b>".into();
    save(root, "clean agent.json", &other);
    let mut mcp = sample::clean();
    mcp.results.truncate(3);
    for row in &mut mcp.results {
        row.suite = "mcp".to_owned();
        row.section = "Tools".to_owned();
        row.verdict = Verdict::NotApplicable;
    }
    mcp.summarize();
    save(root, "server.json", &mcp);
    std::fs::write(root.join("package.json"), "{\"name\": \"x\"}").expect("written");
    std::fs::create_dir(root.join("empty")).expect("made");

    let output = report(root, &["index", "."]);
    ends(&output, 0);
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(said, "3 reports in ./index.html\n");
    let page = std::fs::read_to_string(root.join("index.html")).expect("index.html");
    assert_harmless(&page);
    assert!(page.contains("href=\"./hermes/report.html\""), "{page}");
    assert!(page.contains("href=\"./clean%20agent.json\""));
    assert!(page.contains("Clean &amp; &lt;b&gt;quick"));
    assert!(page.contains("<span class=\"pill\">3 failing</span>"));
    assert!(page.contains("<td class=\"cell n_a\" title=\"Tools: 3 n/a\">n/a</td>"));
    let table = std::fs::read_to_string(root.join("index.md")).expect("index.md");
    insta::assert_snapshot!("index_md", table);
    // On a second run, the index itself is not read as a report.
    ends(&report(root, &["index", "."]), 0);
}

/// Reports may be in any directory. Agents with the same name are distinguished by path.
#[test]
fn an_index_covers_several_directories() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path();
    for place in ["old/run", "new/run", "more/a", "more/b"] {
        let path = root.join(place);
        std::fs::create_dir_all(&path).expect("made");
        write_all(&sample::clean(), &path, &RenderOptions::default()).expect("written");
    }
    std::fs::create_dir(root.join("site")).expect("made");
    let args = [
        "index", "old/run", "new/run", "more", "more/a", "--to", "site",
    ];
    let output = report(root, &args);
    ends(&output, 0);
    assert_eq!(output.stdout, b"4 reports in site/index.html\n");
    let page = std::fs::read_to_string(root.join("site/index.html")).expect("index.html");
    for link in ["../old/run/", "../new/run/", "../more/a/", "../more/b/"] {
        assert!(
            page.contains(&format!("href=\"./{link}report.html\"")),
            "{page}"
        );
    }
    assert!(
        page.contains(" (a)</a>") && page.contains(" (run)</a>"),
        "{page}"
    );
    let err = ends(&report(root, &["index", "old/run", "more"]), 64);
    assert!(err.contains("--to DIR"), "{err}");
    ends(&report(root, &["index", "more", "--to", "nowhere"]), 66);
}

#[test]
fn an_empty_or_invalid_index_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path();
    let err = ends(&report(root, &["index", "."]), 66);
    assert!(err.contains("no report in"), "{err}");
    ends(&report(root, &["index", "nowhere"]), 66);
    std::fs::create_dir(root.join("a")).expect("made");
    std::fs::write(root.join("a/report.json"), "{}").expect("written");
    let err = ends(&report(root, &["index", "."]), 65);
    assert!(
        err.contains("a/report.json` is not a valid certification report"),
        "{err}"
    );
    assert!(!root.join("index.html").exists());
}
