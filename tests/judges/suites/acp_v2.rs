//! The suite `acp-v2-draft` against an agent that only supports version 1. The mock agent of the
//! draft and its mutants are tested in tests/judges/certify/selftest.rs. Covers V2-01 to V2-16.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

fn certify(mock: &str) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
    command.args(["certify", "-o", "json", "--timeout", "5"]);
    command.args(["--suite", "acp-v2-draft", "--mock", mock]);
    let out = command.output().expect("agentproto runs");
    let report: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    report["results"].as_array().expect("results").clone()
}

fn with(rows: &[Value], verdicts: &[&str]) -> BTreeSet<String> {
    let wanted = |row: &&Value| verdicts.iter().any(|verdict| row["verdict"] == *verdict);
    let rows = rows.iter().filter(wanted);
    rows.map(|row| row["requirement"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_version_1_agent_gets_no_verdict_from_the_draft() {
    let rows = certify("acp");
    assert!(with(&rows, &["pass", "fail", "warn", "error"]).is_empty());
    let case = rows.iter().find(|row| row["case"] == "v2-01-info");
    let case = case.expect("the case has a row");
    assert_eq!(case["verdict"], "n_a");
    let why = case["message"].as_str().unwrap_or_default();
    assert!(why.contains("answered with version 1"), "{why}");
}
