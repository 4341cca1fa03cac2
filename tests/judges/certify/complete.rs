//! Every requirement must have a mutant that breaks it. Otherwise a check that detects nothing
//! would go unnoticed.

use std::collections::BTreeSet;

use agentproto_harness::suite::{Suite, built_in};
use agentproto_mock::{AgentKind, mutants};
use agentproto_selftest::lifecycle;

use crate::certify::{run, verdicts};

fn suite(name: &str) -> Suite {
    let suite = built_in(name).unwrap_or_else(|| panic!("unknown suite {name}"));
    suite.unwrap_or_else(|mistakes| panic!("{name}: {mistakes:?}"))
}

/// Checks that every requirement is either broken by a mutant or exempt, and never both.
#[track_caller]
fn complete(name: &str, broken: impl Iterator<Item = &'static str>, exempt: &[&str]) {
    let broken: BTreeSet<&str> = broken.collect();
    let exempt: BTreeSet<&str> = exempt.iter().copied().collect();
    let suite = suite(name);
    let all: BTreeSet<&str> = suite.requirements.iter().map(|r| r.id.as_str()).collect();
    let reported: BTreeSet<&str> = broken.intersection(&all).copied().collect();
    let both: Vec<_> = reported.intersection(&exempt).collect();
    assert!(
        both.is_empty(),
        "{name}: {both:?} are exempt, but mutants break them"
    );
    let unknown: Vec<_> = exempt.difference(&all).collect();
    assert!(
        unknown.is_empty(),
        "{name}: unknown requirements {unknown:?}"
    );
    let unbroken = all
        .iter()
        .filter(|id| !reported.contains(**id) && !exempt.contains(**id));
    let unbroken: Vec<_> = unbroken.collect();
    assert!(unbroken.is_empty(), "{name}: no mutant breaks {unbroken:?}");
}

fn of(kind: AgentKind) -> impl Iterator<Item = &'static str> {
    mutants::of(kind).map(|mutant| mutant.requirement)
}

#[test]
fn every_requirement_of_acp_has_a_mutant() {
    agentproto_suites::proves!("A44-CONF-01", "A44-CONF-03", "A45-CONF-03");
    complete("acp", of(AgentKind::Acp), &[]);
}

#[test]
fn every_requirement_of_mcp_has_a_mutant() {
    complete("mcp", of(AgentKind::Mcp), &[]);
}

#[test]
fn every_mutant_names_a_requirement_of_its_suites() {
    for (kind, names) in [
        (AgentKind::Acp, &["acp", "open-design"][..]),
        (AgentKind::AcpV2, &["acp-v2-draft"]),
        (AgentKind::Mcp, &["mcp"]),
    ] {
        let suites: Vec<Suite> = names.iter().map(|name| suite(name)).collect();
        for mutant in mutants::of(kind) {
            let known = suites
                .iter()
                .any(|s| s.requirement(mutant.requirement).is_some());
            assert!(known, "{}", mutant.id);
        }
    }
}

/// Requirements that the draft shares with version 1, whose mutants break them in the same
/// monitors.
const SHARED_WITH_V1: [&str; 4] = ["V2-TR-01", "V2-TR-02", "V2-TR-07", "V2-TR-17"];

#[test]
fn every_requirement_of_the_draft_has_a_mutant() {
    complete("acp-v2-draft", of(AgentKind::AcpV2), &SHARED_WITH_V1);
    let acp: BTreeSet<&str> = of(AgentKind::Acp).collect();
    for id in SHARED_WITH_V1 {
        let shared = id.trim_start_matches("V2-");
        assert!(acp.contains(shared), "no mutant breaks {shared}");
    }
}

/// Requirements that no bundle can break, because they are duties of our runner. The runner's own
/// tests break them. tests/judges/suites/lifecycle.rs checks that the runner performs them.
pub const RUNNER_DUTIES: [(&str, &str); 20] = [
    ("A29-REQ-07", "a missing program is covered by A45-LIFE-02"),
    ("A29-SETUP-21", "the order of the stages"),
    ("A29-VER-08", "the order of the stages"),
    ("A44-LIFEC-01", "the order of the stages"),
    ("A45-SETUP-05", "the order of the stages"),
    ("A44-SEC-05", "the audit log is written by the runner"),
    ("A45-LIFE-07", "the audit log is written by the runner"),
    ("A45-SEC-03", "the audit log is written by the runner"),
    ("A45-AUTH-05", "the runner writes logs and redacts secrets"),
    ("A44-SEC-08", "the runner kills processes that do not exit"),
    (
        "A45-LIFE-04",
        "the runner starts every process in the sandbox",
    ),
    ("A45-SESS-02", "the runner closes idle sessions"),
    ("A45-CONT-07", "the runner writes the transcript"),
    (
        "A45-CONT-10",
        "the runner refuses it before the agent starts",
    ),
    (
        "A45-MODE-06",
        "the runner refuses it before the agent starts",
    ),
    (
        "A45-OPT-09",
        "the runner refuses it before the agent starts",
    ),
    (
        "A45-OPT-10",
        "the runner refuses it before the agent starts",
    ),
    ("A45-OPT-05", "the runner fills in the value"),
    ("A45-SETUP-02", "the runner keeps the ledger of setup steps"),
    ("A45-SETUP-07", "the runner reports the pending steps"),
];

#[test]
fn every_requirement_of_the_lifecycle_has_a_mutant_or_is_a_duty_of_the_runner() {
    let mutants = lifecycle::mutants();
    let broken = mutants.iter().map(|mutant| mutant.requirement);
    complete("lifecycle", broken, &RUNNER_DUTIES.map(|(id, _)| id));
}

/// Requirements of Open Design that ACP has as well: a defective agent, the case that detects it,
/// and the requirements that must be reported.
const SHARED_WITH_ACP: [(&str, &str, &[&str]); 9] = [
    (
        "MOCK_SCENARIO=never-starts",
        "od-18-initialize",
        &["OD-01", "OD-03", "OD-18"],
    ),
    (
        "MOCK_MUTANT=acp-tr-03-log-line",
        "od-29-turn",
        &["OD-04", "OD-31", "OD-32"],
    ),
    (
        "MOCK_MUTANT=acp-tr-04-latin1-log",
        "od-05-stderr",
        &["OD-05"],
    ),
    (
        "MOCK_MUTANT=acp-se-01-empty-id",
        "od-19-session",
        &["OD-20"],
    ),
    (
        "MOCK_MUTANT=acp-co-01-no-current",
        "od-21-current-model",
        &["OD-21"],
    ),
    (
        "MOCK_MUTANT=acp-pt-09-says-nothing",
        "od-25-words",
        &["OD-23", "OD-25"],
    ),
    (
        "MOCK_MUTANT=acp-tr-11-internal-error",
        "od-33-clear-errors",
        &["OD-33"],
    ),
    ("MOCK_MUTANT=acp-tr-19-exit-code", "od-34-end", &["OD-34"]),
    ("MOCK_MUTANT=acp-pt-11-ignored", "od-35-cancel", &["OD-35"]),
];

#[test]
fn every_requirement_of_open_design_is_broken_by_a_mutant() {
    agentproto_suites::proves!(
        "OD-01", "OD-03", "OD-04", "OD-05", "OD-18", "OD-20", "OD-21", "OD-23", "OD-25", "OD-31",
        "OD-32", "OD-33", "OD-34", "OD-35"
    );
    let shared: Vec<&str> = SHARED_WITH_ACP
        .iter()
        .flat_map(|(.., ids)| *ids)
        .copied()
        .collect();
    complete("open-design", of(AgentKind::Acp), &shared);
    let suite = ["--mock", "acp", "--suite", "open-design", "--timeout", "3"];
    for (wrong, case, statements) in SHARED_WITH_ACP {
        let (_, right) = run(&[&suite[..], &["--only", case]].concat());
        let (_, report) = run(&[&suite[..], &["--only", case, "--env", wrong]].concat());
        for id in statements {
            let blames = |v: &&str| matches!(*v, "fail" | "warn");
            let reported = verdicts(&report, id);
            assert!(
                reported.iter().any(blames),
                "{wrong} does not fail {id}: {reported:?}"
            );
            let reported = verdicts(&right, id);
            assert!(
                !reported.iter().any(blames),
                "the conforming mock agent fails {id}: {reported:?}"
            );
        }
    }
}
