//! `agentproto certify` as used in a vendor's CI: exit codes, misbehaving agents, shards,
//! baselines, and the self-test.

pub mod complete;
mod faults;
mod lenient;
mod profiles;
mod recorded;
mod runs;
mod secrets;
mod selftest;
mod timing;

use std::process::{Command, Output};

use serde_json::Value;

pub fn certify(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
    command.arg("certify").args(args).env_remove("MOCK_MUTANT");
    command
}

pub fn run(args: &[&str]) -> (Output, Value) {
    let output = certify(&["--output", "json"]).args(args).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, report)
}

/// The verdicts of a requirement in all its rows.
pub fn verdicts<'r>(report: &'r Value, requirement: &str) -> Vec<&'r str> {
    let rows = report["results"].as_array().unwrap().iter();
    rows.filter(|row| row["requirement"] == requirement)
        .filter_map(|row| row["verdict"].as_str())
        .collect()
}
