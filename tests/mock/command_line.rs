//! The command line of `agentproto mock`.

use std::process::{Command, Output};

use serde_json::Value;

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .arg("mock")
        .args(args)
        .env_remove("MOCK_SCENARIO")
        .env_remove("MOCK_MUTANT")
        .env_remove("MOCK_VARIANT")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs")
}

fn refused(args: &[&str], code: i32, words: &str) {
    let output = run(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(stderr.contains(words), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn unknown_names_get_suggestions() {
    refused(&["acpp"], 64, "acp");
    refused(&[], 64, "required");
    refused(
        &["acp", "--scenario", "permision"],
        64,
        "did you mean `permission`?",
    );
    refused(&["acp", "--scenario", "zzzzzz"], 64, "mock --list");
    refused(
        &["acp", "--mutant", "acp-tr-05-no-jsonrcp"],
        64,
        "acp-tr-05-no-jsonrpc",
    );
    refused(
        &["mcp", "--mutant", "acp-tr-05-no-jsonrpc"],
        64,
        "the mcp mock has no mutant",
    );
    refused(
        &["repl", "--mutant", "x"],
        64,
        "the repl mock has no mutant",
    );
    refused(
        &["acp", "--variant", "unicode-id"],
        64,
        "did you mean `unicode-ids`?",
    );
    refused(
        &["repl", "--variant", "slow"],
        64,
        "the repl mock has no variant",
    );
    refused(
        &["acp", "--scenario", "no/such/file.yaml"],
        66,
        "does not exist",
    );
}

#[test]
fn an_invalid_file_is_reported_line_by_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("bad.yaml");
    std::fs::write(
        &file,
        "scenario: agentproto.scenario/v1\nname: x\nturns:\n  - steps: [{txt: a}]\n",
    )
    .expect("a file");
    refused(
        &["acp", "--scenario", &file.to_string_lossy()],
        65,
        "bad.yaml:4:14: unknown step `txt`",
    );
}

#[test]
fn the_environment_applies_without_flags() {
    let run = |variable: &str, value: &str| {
        Command::new(env!("CARGO_BIN_EXE_agentproto"))
            .args(["mock", "acp"])
            .env(variable, value)
            .stdin(std::process::Stdio::null())
            .output()
            .expect("it runs")
    };
    assert_eq!(run("MOCK_SCENARIO", "exit-at-once").status.code(), Some(7));
    assert_eq!(run("MOCK_SCENARIO", "").status.code(), Some(0));
    assert_eq!(run("MOCK_MUTANT", "odd").status.code(), Some(64));
    assert_eq!(run("MOCK_VARIANT", "odd").status.code(), Some(64));
    assert_eq!(run("MOCK_VARIANT", "").status.code(), Some(0));
}

#[test]
fn the_list_is_complete_in_every_format() {
    let human = run(&["--list"]);
    let human = String::from_utf8_lossy(&human.stdout).into_owned();
    let json: Value =
        serde_json::from_slice(&run(&["--list", "--output", "json"]).stdout).expect("JSON");
    let scenarios = json["scenarios"].as_array().expect("scenarios");
    let mutants = json["mutants"].as_array().expect("mutants");
    let variants = json["variants"].as_array().expect("variants");
    for (list, key) in [(scenarios, "name"), (variants, "name"), (mutants, "id")] {
        for item in list {
            let name = item[key].as_str().expect("a name");
            assert!(human.contains(name), "{name}");
        }
    }
    let jsonl = run(&["--list", "--output", "jsonl"]);
    let schema: Value =
        serde_json::from_str(include_str!("../../schemas/events.schema.json")).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let lines: Vec<Value> = String::from_utf8_lossy(&jsonl.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(lines.iter().all(|line| schema.is_valid(line)));
    // Each one names the scenario that shows it, and that scenario exists.
    for item in variants.iter().chain(mutants) {
        let named = |scenario: &&Value| scenario["name"] == item["scenario"];
        assert!(scenarios.iter().any(|s| named(&s)), "{item}");
    }
    let count = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!(
        (count("scenario"), count("variant"), count("mutant")),
        (scenarios.len(), variants.len(), mutants.len())
    );
    assert_eq!((count("aoi:meta"), count("aoi:summary")), (1, 1));
}
