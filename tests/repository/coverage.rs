//! The register of statements names tests that exist, and what the suites promise is decided.
//! `crates/lint/tests/lint/register.rs` compares it with the rules.

use agentproto_suites::register;

#[test]
fn named_tests_are_there() {
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut named = 0;
    for statement in register() {
        for test in statement.tests() {
            let name = test.strip_prefix("test:").unwrap_or_default();
            let is_there = tests.join(name).join("main.rs").is_file()
                || tests.join(format!("{name}.rs")).is_file();
            assert!(is_there, "{} names {test}", statement.id);
            named += 1;
        }
    }
    assert!(named > 300, "{named}");
}

/// Every statement about sessions is decided by something, but those that nothing can decide.
#[test]
fn every_statement_about_sessions_has_a_decider() {
    let suite = agentproto_harness::suite::built_in("sessions");
    let suite = suite.expect("there").expect("right");
    let mut open = Vec::new();
    for statement in register().filter(|s| s.spec == "AIP-46") {
        let by_case = suite.requirement(statement.id).is_some();
        if !by_case && statement.tests().next().is_none() {
            open.push(statement.id);
        }
    }
    // What binds a client that starts sessions, which ours do not; and a permission only: a host
    // may leave its routes out.
    assert_eq!(open, ["A46-WS-09", "A46-COMPAT-02"]);
}

/// What belongs to the agent's side of the certification is decided, or the register says why not.
#[test]
fn what_certify_should_decide_is_decided_or_explained() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args(["coverage", "--output", "json"])
        .output()
        .expect("run");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = report["requirements"].as_array().expect("rows");
    let own = ["acp", "open-design", "lifecycle", "mcp", "acp-v2-draft"];
    for row in rows {
        let id = row["id"].as_str().expect("an id");
        let decided = !row["decided_by"].as_array().expect("a list").is_empty();
        let tested = !row["tested_by"].as_array().expect("a list").is_empty();
        let noted = row["noted"].as_str().unwrap_or_default();
        let spec = row["spec"].as_str().expect("a spec");
        assert!(
            decided || !own.contains(&spec),
            "{id} has no case and no monitor"
        );
        assert!(
            decided || tested || !noted.is_empty(),
            "{id} is neither decided nor explained"
        );
        // A case that is promised is there; the cases of AIP-46 are of another suite.
        let suites = ["case:acp", "case:open-design", "case:lifecycle", "case:mcp"];
        let promised = suites.iter().any(|suite| noted.starts_with(suite));
        assert!(!promised, "{id}: {noted}");
    }
}
