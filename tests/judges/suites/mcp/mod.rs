//! The suite `mcp` against servers with a known verdict: the mock server, and servers that conform
//! in other ways. The mutants of the mock server are tested in tests/judges/certify/selftest.rs.
//! A45-CONF-04 depends on the requirements of this suite.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use agentproto_harness::suite::{Suite, built_in};
use serde_json::Value;

fn suite() -> Suite {
    let suite = built_in("mcp").expect("there is a suite mcp");
    suite.unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// Verdicts by requirement: the worst of its rows, with the message.
fn certify(args: &[&str]) -> BTreeMap<String, (String, String)> {
    let out = Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args(["certify", "-o", "json", "--timeout", "3", "--suite", "mcp"])
        .args(args)
        .output()
        .expect("agentproto runs");
    let report: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    let mut worst: BTreeMap<String, (String, String)> = BTreeMap::new();
    let rank = |verdict: &str| match verdict {
        "error" => 4,
        "fail" => 3,
        "warn" => 2,
        "pass" => 1,
        _ => 0,
    };
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    for row in report["results"].as_array().expect("results") {
        let said = format!("{}: {}", text(row, "case"), text(row, "message"));
        let now = (text(row, "verdict"), said);
        let before = worst.entry(text(row, "requirement")).or_default();
        if rank(&now.0) >= rank(&before.0) {
            *before = now;
        }
    }
    worst
}

/// The failures and warnings.
fn wrong(verdicts: &BTreeMap<String, (String, String)>) -> BTreeMap<&str, &str> {
    let failing = verdicts.iter();
    let failing =
        failing.filter(|(_, (verdict, _))| matches!(verdict.as_str(), "fail" | "warn" | "error"));
    failing
        .map(|(id, (_, said))| (id.as_str(), said.as_str()))
        .collect()
}

/// Runs a job for each item, a few at a time, and returns the failures.
fn each<T: Sync>(items: &[T], job: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    if let Some(failure) = job(item) {
                        failures.lock().expect("no panic").push(failure);
                    }
                }
            });
        }
    });
    failures.into_inner().expect("no panic")
}

/// Scenarios that the self-test does not run.
#[test]
fn the_conforming_mock_server_passes_in_other_scenarios() {
    let scenarios = [
        "elicitation",
        "permission",
        "tools",
        "thought",
        "bare",
        "rich",
    ];
    let failures = each(&scenarios, |scenario| {
        let env = format!("MOCK_SCENARIO={scenario}");
        let verdicts = certify(&["--mock", "mcp", "--env", &env]);
        let wrong = wrong(&verdicts);
        (!wrong.is_empty()).then(|| format!("{scenario}: {wrong:?}"))
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn servers_that_conform_in_other_ways_pass() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/suites/mcp/server.sh");
    let server = server.to_str().expect("a plain path");
    let dir = tempfile::tempdir().expect("a directory");
    let prompts = dir.path().join("prompts.yaml");
    let calls =
        "slow: {name: wait}\nelicitation: {name: ask}\nlog: {name: log}\ntext: {name: b.two}\n";
    // The server `asking` has no tool `b.two`, so another tool is named.
    let asking = calls.replace("b.two", "log");
    std::fs::write(&prompts, calls).expect("written");
    let others = dir.path().join("asking.yaml");
    std::fs::write(&others, asking).expect("written");
    let (prompts, others) = (
        prompts.to_str().expect("plain"),
        others.to_str().expect("plain"),
    );
    // Each server with the requirements that must pass.
    let variants: [(&str, Option<&str>, &[&str]); 4] = [
        ("old", None, &["MCP-LIFE-05", "MCP-TOOL-08", "MCP-TOOL-14"]),
        ("bare", None, &["MCP-LIFE-02", "MCP-PING-02"]),
        (
            "paged",
            Some(prompts),
            &[
                "MCP-PAGE-01",
                "MCP-PAGE-02",
                "MCP-PROG-02",
                "MCP-TOOL-09",
                "MCP-TOOL-11",
            ],
        ),
        (
            "asking",
            Some(others),
            &[
                "MCP-BASE-03",
                "MCP-CANC-01",
                "MCP-CANC-02",
                "MCP-ELIC-03",
                "MCP-ELIC-04",
                "MCP-LOG-04",
                "MCP-ROOT-01",
            ],
        ),
    ];
    let failures = each(&variants, |(kind, prompts, held)| {
        let mut args = Vec::new();
        if let Some(prompts) = prompts {
            args.extend(["--prompts", prompts]);
        }
        args.extend(["--", "sh", server, kind]);
        let verdicts = certify(&args);
        let wrong = wrong(&verdicts);
        if !wrong.is_empty() {
            return Some(format!("{kind}: {wrong:?}"));
        }
        let passed = |id: &&&str| verdicts.get(**id).is_none_or(|(v, _)| v != "pass");
        let missing: Vec<_> = held.iter().filter(passed).collect();
        (!missing.is_empty()).then(|| format!("{kind}: not passed: {missing:?}"))
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_server_that_ignores_the_end_of_input_is_reported() {
    let only = ["--mock", "mcp", "--only", "MCP-LIFE-09"];
    let deaf = certify(&[&only[..], &["--env", "MOCK_SCENARIO=ignore-eof"]].concat());
    assert_eq!(deaf["MCP-LIFE-09"].0, "warn");
    assert_eq!(certify(&only)["MCP-LIFE-09"].0, "pass");
}

#[test]
fn a_tool_is_not_called_unless_named() {
    // The tools of `asking` are not called unless a prompts file names them. `bare` has no tools.
    let server = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/judges/suites/mcp/server.sh"
    );
    let verdicts = certify(&["--only", "MCP-TOOL-08", "--", "sh", server, "bare"]);
    assert_eq!(verdicts["MCP-TOOL-08"].0, "n_a");
    let verdicts = certify(&["--only", "MCP-CANC-01", "--", "sh", server, "asking"]);
    assert_eq!(verdicts["MCP-CANC-01"].0, "skip");
    assert!(verdicts["MCP-CANC-01"].1.contains("--prompts"));
}

#[test]
fn requirements_are_complete_and_checked() {
    let suite = suite();
    for requirement in &suite.requirements {
        let id = &requirement.id;
        assert!(requirement.hint.is_some(), "{id} has no hint");
        assert!(!requirement.section.is_empty(), "{id} has no section");
        let decided = suite.cases.iter().any(|case| case.decides.contains(id));
        assert!(
            decided || !requirement.monitors.is_empty(),
            "nothing checks {id}"
        );
    }
    // The monitors check exactly the requirements that are marked as watched.
    let sources = [
        include_str!("../../../../crates/harness/src/monitor/mcp/mod.rs"),
        include_str!("../../../../crates/harness/src/monitor/mcp/session.rs"),
        include_str!("../../../../crates/harness/src/monitor/mcp/progress.rs"),
        include_str!("../../../../crates/harness/src/monitor/mcp/tools.rs"),
        include_str!("../../../../crates/harness/src/monitor/mcp/logging.rs"),
        include_str!("../../../../crates/harness/src/monitor/mcp/client_requests.rs"),
    ];
    let noted: BTreeSet<&str> = sources
        .iter()
        .flat_map(|source| source.split('"'))
        .filter(|word| word.starts_with("MCP-") && word.len() < 16 && !word.contains(' '))
        .collect();
    let watched = suite.requirements.iter().filter(|r| !r.monitors.is_empty());
    let watched: BTreeSet<&str> = watched.map(|r| r.id.as_str()).collect();
    assert_eq!(noted, watched);
}
