//! The suite `acp-v2-draft` against agents whose verdict is known: the mock of the draft, what can
//! be wrong with it, and an agent that speaks version 1 only. Decides V2-01 to V2-16.

use std::collections::BTreeSet;
use std::process::Command;

use agentproto::harness::suite::built_in;
use agentproto::mock::Kind;
use agentproto::mock::mutants;
use serde_json::Value;

const SUITE: &str = "acp-v2-draft";

fn certify(mock: &str, env: &[String]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
    command.args(["certify", "-o", "json", "--timeout", "5", "--suite", SUITE]);
    command.args(["--mock", mock, "--auth-method", "key"]);
    for variable in env {
        command.args(["--env", variable]);
    }
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

const BLAME: [&str; 3] = ["fail", "warn", "error"];

#[test]
fn the_mock_of_the_draft_is_blamed_for_nothing() {
    for scenario in ["default", "auth"] {
        let rows = certify("acp-v2", &[format!("MOCK_SCENARIO={scenario}")]);
        assert_eq!(with(&rows, &BLAME), BTreeSet::new(), "{scenario}");
        assert!(with(&rows, &["pass"]).len() >= 20, "{scenario}");
    }
}

#[test]
fn every_mutant_is_blamed_for_what_it_does() {
    let mut wrong = Vec::new();
    for mutant in mutants::of(Kind::AcpV2) {
        let env = [
            format!("MOCK_MUTANT={}", mutant.id),
            format!("MOCK_SCENARIO={}", mutant.scenario),
        ];
        let blamed = with(&certify("acp-v2", &env), &BLAME);
        let also: &[&str] = match mutant.id {
            // What is never said cannot be replayed.
            "v2-05-no-echo" => &["V2-11"],
            _ => &[],
        };
        let fits = |id: &String| *id == mutant.requirement || also.contains(&id.as_str());
        if !blamed.contains(mutant.requirement) || !blamed.iter().all(fits) {
            wrong.push(format!("{}: {blamed:?}", mutant.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_statement_of_the_draft_has_a_mutant() {
    let suite = built_in(SUITE).expect("there is such a suite");
    let suite = suite.unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let broken: BTreeSet<&str> = mutants::of(Kind::AcpV2).map(|m| m.requirement).collect();
    // Those of the transport are shared with version 1, whose mutants break them.
    let own = suite.requirements.iter().map(|r| r.id.as_str());
    let own = own.filter(|id| !id.starts_with("V2-TR-"));
    let unbroken: Vec<&str> = own.filter(|id| !broken.contains(id)).collect();
    assert!(unbroken.is_empty(), "{unbroken:?}");
    for requirement in broken {
        assert!(suite.requirement(requirement).is_some(), "{requirement}");
    }
}

#[test]
fn an_agent_of_version_1_is_not_judged_by_the_draft() {
    let rows = certify("acp", &[]);
    assert!(with(&rows, &["pass", "fail", "warn", "error"]).is_empty());
    let case = rows.iter().find(|row| row["case"] == "v2-01-info");
    let case = case.expect("the case has a row");
    assert_eq!(case["verdict"], "n_a");
    let why = case["message"].as_str().unwrap_or_default();
    assert!(why.contains("answered version 1"), "{why}");
}
