//! The register of requirements names only existing tests, and the suites check what the register
//! promises. `crates/lint/tests/lint/register.rs` compares the register with the rules, and
//! `proofs.rs` collects what proves each requirement.

use agentproto_suites::register;

#[test]
fn tests_named_in_the_register_exist() {
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut named = 0;
    for requirement in register() {
        for test in requirement.tests() {
            let name = test.strip_prefix("test:").unwrap_or_default();
            let is_there = tests.join(name).join("main.rs").is_file()
                || tests.join(format!("{name}.rs")).is_file();
            assert!(is_there, "{} names {test}", requirement.id);
            named += 1;
        }
    }
    assert!(named > 300, "{named}");
}

/// Every requirement on sessions is checked by a case or a test, except those that cannot be
/// checked.
#[test]
fn every_requirement_on_sessions_is_checked() {
    let suite = agentproto_harness::suite::built_in("sessions");
    let suite = suite.expect("there").expect("right");
    let mut open = Vec::new();
    for requirement in register().filter(|s| s.spec == "AIP-46") {
        let by_case = suite.requirement(requirement.id).is_some();
        if !by_case && requirement.tests().next().is_none() {
            open.push(requirement.id);
        }
    }
    // It only permits a host to omit routes.
    assert_eq!(open, ["A46-COMPAT-02"]);
}

/// Every requirement on agents is checked, or the register says why not.
#[test]
fn requirements_on_agents_are_checked_or_explained() {
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
        let proven = !row["proven_by"].as_array().expect("a list").is_empty();
        let noted = row["noted"].as_str().unwrap_or_default();
        let spec = row["spec"].as_str().expect("a spec");
        assert!(
            decided || !own.contains(&spec),
            "no case and no monitor checks {id}"
        );
        assert!(
            decided || proven || !noted.is_empty(),
            "{id} is neither checked nor explained"
        );
        // No case is announced but missing. The cases of AIP-46 are in another suite.
        let suites = ["case:acp", "case:open-design", "case:lifecycle", "case:mcp"];
        let promised = suites.iter().any(|suite| noted.starts_with(suite));
        assert!(decided || !promised, "{id}: {noted}");
    }
}
