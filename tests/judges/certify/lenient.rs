//! Verdicts on agents that are unusual but allowed, and on agents whose single error must not look
//! like several.

use serde_json::Value;

use crate::certify::{run, verdicts};

/// Runs the cases of some requirements against the mock agent.
fn mock(env: &[&str], only: &str) -> Value {
    let mut args = vec!["--mock", "acp", "--only", only];
    args.extend(env.iter().flat_map(|set| ["--env", *set]));
    let (output, report) = run(&args);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!report.is_null(), "{env:?}: {words}");
    report
}

/// Requirements with a row that failed or warned.
fn reported(report: &Value) -> Vec<&str> {
    let rows = report["results"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["verdict"] == "fail" || row["verdict"] == "warn");
    let mut ids: Vec<&str> = rows.filter_map(|row| row["requirement"].as_str()).collect();
    ids.dedup();
    ids
}

#[test]
fn unusual_agents_are_not_failed() {
    for (variant, scenario, requirement, expected) in [
        ("version-router", "default", "IN-03", &["pass"][..]),
        ("version-router", "default", "IN-04", &["n_a"]),
        ("login-comes-first", "auth", "IN-13", &["not_verified"]),
        ("program-missing", "default", "SE-01", &["not_verified"]),
        ("terminal-login", "default", "AU-08", &["not_verified"]),
        ("plans-only", "plan", "PT-09", &["pass"]),
        ("cancels-slowly", "default", "PT-11", &["pass"]),
        (
            "reopens-only-closed",
            "default",
            "RS-01",
            &["not_verified", "pass"],
        ),
        (
            "reopens-only-closed",
            "default",
            "LD-02",
            &["not_verified", "pass"],
        ),
    ] {
        let set = [
            format!("MOCK_SCENARIO={scenario}"),
            format!("MOCK_VARIANT={variant}"),
        ];
        let report = mock(&[&set[0], &set[1]], requirement);
        let mut found = verdicts(&report, requirement);
        // Cases that need a mock model.
        found.retain(|verdict| *verdict != "skip");
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, expected, "{variant} {requirement}: {report:#}");
    }
}

/// An agent that is killed at the restart loses what it would have stored at its exit.
#[test]
fn a_killed_agent_may_lose_its_sessions() {
    let set = ["MOCK_VARIANT=stores-at-exit", "MOCK_MUTANT=acp-tr-18-stays"];
    let report = mock(&set, "LD-01,LD-04,RS-02");
    for requirement in ["LD-01", "LD-04", "RS-02"] {
        let found = verdicts(&report, requirement);
        assert!(found.contains(&"not_verified"), "{requirement}: {report:#}");
        // In the same process nothing is lost.
        let judged = |verdict: &&str| ["not_verified", "pass", "skip"].contains(verdict);
        assert!(found.iter().all(judged), "{requirement}: {report:#}");
    }
}

/// An agent that never calls the client's services shows nothing about them.
#[test]
fn services_that_are_never_used_are_not_verified() {
    let report = mock(&["MOCK_SCENARIO=tools"], "FS-01,FS-02,TE-01");
    for requirement in ["FS-01", "FS-02", "TE-01"] {
        let found = verdicts(&report, requirement);
        assert!(
            !found.is_empty() && found.iter().all(|verdict| *verdict == "not_verified"),
            "{requirement}: {report:#}"
        );
    }
}

/// Answered notifications are one error, whatever else is under way.
#[test]
fn answered_notifications_are_reported_once() {
    let related = "TR-06,TR-08,TR-09,TR-10,PT-11,CR-01,CR-02";
    for mutant in ["answers-cancel", "answers-all", "error-without-id"] {
        let report = mock(&[&format!("MOCK_MUTANT=acp-tr-10-{mutant}")], related);
        assert_eq!(reported(&report), ["TR-10"], "{mutant}: {report:#}");
    }
}

/// A value that the client stored is not the agent's own value.
#[test]
fn unknown_values_are_reported_where_they_are_set() {
    let set = ["MOCK_SCENARIO=modes", "MOCK_MUTANT=acp-co-05-keeps-unknown"];
    let report = mock(&set, "CO-02,CO-05");
    assert_eq!(reported(&report), ["CO-05"], "{report:#}");
}

#[test]
fn a_type_of_an_earlier_draft_is_reported_once() {
    let set = ["MOCK_SCENARIO=auth", "MOCK_MUTANT=acp-au-03-env-var"];
    let report = mock(&set, "AU,EX-01");
    assert_eq!(reported(&report), ["AU-03"], "{report:#}");
    let rows = report["results"].as_array().unwrap().iter();
    let rows: Vec<&Value> = rows.filter(|row| row["verdict"] == "fail").collect();
    assert_eq!(rows.len(), 1, "{report:#}");
    let message = rows[0]["message"].as_str().unwrap();
    assert!(message.contains("earlier drafts"), "{message}");
}

/// A refused resume of the agent's own session is reported, although no replay could be checked.
#[test]
fn a_resume_that_never_works_is_reported() {
    let set = ["MOCK_MUTANT=acp-rs-02-refuses"];
    let report = mock(&set, "RS-01,RS-02,IN-16");
    assert_eq!(reported(&report), ["IN-16", "RS-02"], "{report:#}");
    let found = verdicts(&report, "RS-01");
    assert!(found.iter().all(|v| *v == "not_verified"), "{report:#}");
}
