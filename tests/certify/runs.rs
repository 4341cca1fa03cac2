//! Shards, baselines, a vendor's own suite.

use std::path::PathBuf;

use serde_json::Value;

use crate::{certify, run, verdicts};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn saved(dir: &tempfile::TempDir, name: &str, report: &Value) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, report.to_string()).unwrap();
    path
}

#[test]
fn the_correct_mock_is_certified_and_nothing_of_it_is_left_to_doubt() {
    let (output, report) = run(&["--mock", "acp", "--timeout", "10"]);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["summary"]["certified"], true);
    assert_eq!(report["summary"]["warn"], 0);
    let rows = report["results"].as_array().unwrap();
    let mut ids: Vec<&str> = rows
        .iter()
        .filter_map(|r| r["requirement"].as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 162, "every statement of the catalogue has a row");
    let timing = &report["timing"];
    let floor = timing["startup_ms"].as_f64().unwrap() + timing["waits_ms"].as_f64().unwrap();
    assert!(
        timing["wall_ms"].as_f64().unwrap() <= 2.0 * floor,
        "{timing}"
    );
}

/// Two shards together have every row of the whole, each once.
#[test]
fn shards_merge_to_the_whole() {
    let only = [
        "--mock", "acp", "--only", "TR-11", "--only", "TR-12", "--only", "SE-01",
    ];
    let (_, whole) = run(&only);
    let dir = directory();
    let mut files = Vec::new();
    for shard in ["1/2", "2/2"] {
        let (_, part) = run(&[&only[..], &["--shard", shard]].concat());
        assert_eq!(
            part["summary"]["certified"], false,
            "a shard is no certificate"
        );
        files.push(saved(&dir, &shard.replace('/', "-"), &part));
    }
    let merged = std::process::Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args(["report", "merge", "--output", "json"])
        .args(&files)
        .output()
        .unwrap();
    let merged: Value = serde_json::from_slice(&merged.stdout).unwrap();
    let rows = |report: &Value| -> Vec<String> {
        let rows = report["results"].as_array().unwrap().iter();
        rows.map(|r| format!("{} {} {}", r["case"], r["requirement"], r["verdict"]))
            .collect()
    };
    assert_eq!(rows(&merged), rows(&whole));
    assert_eq!(
        merged["summary"]["certified"], false,
        "a selection is no certificate"
    );
}

#[test]
fn what_a_baseline_knows_is_no_news() {
    let mutant = [
        "--mock",
        "acp",
        "--env",
        "MOCK_MUTANT=acp-tr-11-internal-error",
    ];
    let only = ["--only", "TR-11", "--only", "TR-12"];
    let (output, before) = run(&[&mutant[..], &only[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let dir = directory();
    let baseline = saved(&dir, "before.json", &before);
    let baseline = ["--baseline", baseline.to_str().unwrap()];
    let (output, _) = run(&[&mutant[..], &only[..], &baseline[..]].concat());
    assert_eq!(output.status.code(), Some(0));
    let other = [
        "--mock",
        "acp",
        "--env",
        "MOCK_MUTANT=acp-tr-12-internal-error",
    ];
    let (output, _) = run(&[&other[..], &only[..], &baseline[..]].concat());
    assert_eq!(output.status.code(), Some(1), "another failure is news");
}

#[test]
fn a_report_directory_has_every_form_and_the_transcripts() {
    let dir = directory();
    let path = dir.path().to_str().unwrap();
    let (_, report) = run(&["--mock", "acp", "--only", "TR-11", "--report-dir", path]);
    for name in [
        "report.json",
        "report.html",
        "report.md",
        "junit.xml",
        "report.sarif",
        "badge.svg",
        "badge.json",
    ] {
        assert!(dir.path().join(name).is_file(), "{name}");
    }
    let mut rows = report["results"].as_array().unwrap().iter();
    let row = rows.find(|row| row["requirement"] == "TR-11").unwrap();
    let transcript = dir.path().join(row["transcript"].as_str().unwrap());
    let text = std::fs::read_to_string(transcript).unwrap();
    let evidence = &row["evidence"][0];
    let line = text
        .lines()
        .nth(evidence["line"].as_u64().unwrap() as usize);
    let line: Value = serde_json::from_str(line.unwrap()).unwrap();
    assert_eq!(
        line["text"], evidence["text"],
        "the evidence is a line of the transcript"
    );
}

#[test]
fn a_suite_of_ones_own_runs_and_its_mistakes_have_places() {
    let dir = directory();
    let suite = "suite: agentproto.suite/v1\nname: mine\nrequirements:\n  - { id: M-1, statement: Says its name }\ncases:\n  - id: name\n    decides: M-1\n    begin: initialized\n    steps:\n      - expect:\n          - { at: $initialize/result/agentInfo/name, is: heron, say: It must be called heron }\n";
    let path = dir.path().join("mine.yaml");
    std::fs::write(&path, suite).unwrap();
    let (output, report) = run(&["--mock", "acp", "--suite", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(verdicts(&report, "M-1"), ["fail"]);
    let message = report["results"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("It must be called heron"), "{message}");
    std::fs::write(&path, suite.replace("begin:", "begins:")).unwrap();
    let output = certify(&["--mock", "acp", "--suite", path.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(65));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("mine.yaml:8:5"), "{words}");
    assert!(words.contains("did you mean `begin`?"), "{words}");
}

/// "It was not called" is worth something only where the agent calls it when it may.
#[test]
fn an_agent_that_never_uses_a_service_proves_nothing_of_it() {
    let dir = directory();
    let prompts = dir.path().join("prompts.yaml");
    let same = "fs_read: hello\nfs_write: hello\nterminal: hello\nelicitation: hello\n";
    std::fs::write(&prompts, same).unwrap();
    let prompts = prompts.to_str().unwrap();
    let only = "FS-01,FS-02,TE-01,EL-01";
    let (_, used) = run(&["--mock", "acp", "--only", only]);
    let (_, unused) = run(&["--mock", "acp", "--only", only, "--prompts", prompts]);
    for requirement in only.split(',') {
        assert!(
            verdicts(&used, requirement).iter().all(|v| *v == "pass"),
            "{requirement}: {used:#}"
        );
        assert!(
            verdicts(&unused, requirement)
                .iter()
                .all(|v| *v == "not_verified"),
            "{requirement}: {unused:#}"
        );
    }
}

#[test]
fn a_selection_of_nothing_is_a_mistake() {
    for (only, told) in [
        ("PT-0l", "did you mean `PT-01`?"),
        ("TR-03", "it is watched in every case"),
        ("quite-else-where", "docs/suites/"),
    ] {
        let output = certify(&["--mock", "acp", "--only", only])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains(told) && said.contains(only), "{said}");
    }
}
