//! `agentproto aoi-lint` run on agentproto itself. Tests start in the order of their names, and
//! this module has the longest test of this binary.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::machine_mode::host::Host;
use crate::machine_mode::{BINARY, fixtures};

fn path() -> std::ffi::OsString {
    let mut path = std::ffi::OsString::from(fixtures().join("bin"));
    path.push(":");
    let binary = std::path::Path::new(BINARY);
    path.push(binary.parent().expect("a directory"));
    path.push(":/usr/local/bin:/usr/bin:/bin");
    path
}

fn probe() -> String {
    let file = fixtures().with_extension("yaml");
    file.to_str().expect("UTF-8").to_owned()
}

/// Findings of the thirteen checks whose verdict is neither `pass` nor `n_a`.
fn unverified(report: &Value) -> Vec<String> {
    report["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .filter(|check| check["check"] != "advisory")
        .filter(|check| {
            let verdict = check["verdict"].as_str().expect("a verdict");
            !matches!(verdict, "pass" | "n_a")
        })
        .map(|check| {
            let word = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
            let words = ["verdict", "rule", "command", "message"].map(word);
            words.join(" ")
        })
        .collect()
}

/// Every pair that applies is proven: no failure, nothing unverified, and no SHOULD is broken.
#[test]
fn every_pair_is_proven() {
    let path = path();
    let host = Host::start(&path);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("probe.yaml");
    let text = std::fs::read_to_string(probe()).expect("a probe file");
    let here = fixtures().parent().expect("a directory").to_owned();
    let text = text.replace("{here}", here.to_str().expect("UTF-8"));
    // A daemon runs here, so `sessions` and its subcommands are probed as well.
    std::fs::write(&file, host.probe_file(&text)).expect("written");
    let file = file.to_str().expect("UTF-8");
    let output = Command::new(BINARY)
        .args(["aoi-lint", "--probe", file, "--timeout", "60"])
        .args(["--output", "json"])
        .env("PATH", &path)
        .output()
        .expect("run");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(unverified(&report), [""; 0], "{err}");
    let summary = &report["summary"];
    assert_eq!(summary["pairs_failing"], 0);
    assert_eq!(summary["pairs_unproven"], 0);
    let rows = report["matrix"].as_object().expect("a matrix");
    for (command, cells) in rows {
        let proven = |name: &str| cells[name] == "pass";
        let wanted: &[&str] = match command.as_str() {
            "(tool)" => &["Discoverable", "Verifiable"],
            _ => &["Typed", "Verifiable", "Versioned"],
        };
        for name in wanted {
            assert!(proven(name), "{command}: {name} is {}", cells[*name]);
        }
    }
    assert_eq!(output.status.code(), Some(0), "{err}");
}

/// The probe file covers every command.
#[test]
fn every_command_is_probed() {
    let output = Command::new(BINARY)
        .args(["capabilities", "--output", "json"])
        .env_clear()
        .output()
        .expect("run");
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let said: BTreeSet<&str> = said["commands"]
        .as_array()
        .expect("commands")
        .iter()
        .map(|command| command["name"].as_str().expect("a name"))
        .collect();
    let text = std::fs::read_to_string(probe()).expect("a probe file");
    let file: serde_yaml::Value = serde_yaml::from_str(&text).expect("YAML");
    let probed = file["commands"].as_mapping().expect("commands").keys();
    // These need a daemon; the other test adds their probes.
    let left_out = file["leave_out"].as_sequence().expect("commands").iter();
    let left_out = left_out.map(|name| name.as_str().expect("a name"));
    assert!(left_out.clone().all(|name| name.starts_with("sessions")));
    let probed = probed.map(|name| name.as_str().expect("a name"));
    assert_eq!(said, probed.chain(left_out).collect());
}

/// AOI-3-01, AOI-3.2-01: discovery works with an empty environment.
#[test]
fn discovery_works_without_environment() {
    for words in [
        &["schema"][..],
        &["schema", "--schema-version", "1"],
        &["input-schema", "--command", "certify"],
        &["capabilities"],
        &["doctor"],
    ] {
        let output = Command::new(BINARY)
            .args(words)
            .args(["--output", "json"])
            .env_clear()
            .current_dir("/")
            .output()
            .expect("run");
        let code = output.status.code();
        assert!(
            code == Some(0) || (words == ["doctor"] && code == Some(1)),
            "{words:?}"
        );
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(value.is_object(), "{words:?}");
    }
}
