//! Runs the monitors on the transcript of a case. They must give the same verdicts as in the live
//! run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::certify::certify;

/// The verdicts of the monitors, by requirement.
fn watched(report: &Value) -> BTreeMap<String, String> {
    let rows = report["results"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["case"] == "monitor");
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    rows.map(|row| (text(row, "requirement"), text(row, "verdict")))
        .collect()
}

fn live(dir: &Path, case: &str, mutant: &str) -> Value {
    let mutant = format!("MOCK_MUTANT={mutant}");
    let args = [
        "--mock", "acp", "--only", case, "--env", &mutant, "-o", "json",
    ];
    let output = certify(&args)
        .arg("--report-dir")
        .arg(dir)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn recorded(transcript: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
    command.arg("replay").arg(transcript);
    let output = command.args(["--judge", "-o", "json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_transcript_gets_the_same_verdicts_as_its_case() {
    // Requirements on a clean exit can only be checked if the transcript shows that the exit was
    // clean.
    for (case, mutant, statement, verdict) in [
        ("te-05-terminal", "", "TE-03", "pass"),
        ("te-05-terminal", "acp-te-02-not-released", "TE-02", "fail"),
        ("te-05-terminal", "acp-tr-03-duplicate-key", "TR-03", "warn"),
        ("tr-18-after-a-turn", "", "TR-09", "pass"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let seen = watched(&live(dir.path(), case, mutant));
        let transcript = dir.path().join(format!("transcripts/acp/{case}.jsonl"));
        let text = std::fs::read_to_string(&transcript).unwrap();
        let closed = text.matches(r#"{\"input\":\"closed\"}"#).count();
        let started = text.matches(r#"{\"started\":true}"#).count();
        assert_eq!((closed, started), (1, 1), "{text}");
        let again = watched(&recorded(&transcript));
        assert_eq!(seen.get(statement).map(String::as_str), Some(verdict));
        for (statement, verdict) in &seen {
            assert_eq!(
                again.get(statement),
                Some(verdict),
                "{case} {mutant} {statement}"
            );
        }
        let mut others = again.iter().filter(|(id, _)| !seen.contains_key(*id));
        assert!(
            others.all(|(_, verdict)| verdict == "not_verified"),
            "{again:?}"
        );
    }
}
