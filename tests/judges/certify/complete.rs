//! No statement without something that breaks it: else nobody would see that its check is blind.

use std::collections::BTreeSet;

use agentproto_harness::suite::{Suite, built_in};
use agentproto_mock::{Kind, mutants};
use agentproto_selftest::lifecycle;

use crate::certify::{run, verdicts};

fn suite(name: &str) -> Suite {
    let suite = built_in(name).unwrap_or_else(|| panic!("there is no suite {name}"));
    suite.unwrap_or_else(|mistakes| panic!("{name}: {mistakes:?}"))
}

/// Every statement is either broken by a mutant or told why not, and never both.
#[track_caller]
fn complete(name: &str, broken: impl Iterator<Item = &'static str>, exempt: &[&str]) {
    let broken: BTreeSet<&str> = broken.collect();
    let exempt: BTreeSet<&str> = exempt.iter().copied().collect();
    let suite = suite(name);
    let all: BTreeSet<&str> = suite.requirements.iter().map(|r| r.id.as_str()).collect();
    let told: BTreeSet<&str> = broken.intersection(&all).copied().collect();
    let both: Vec<_> = told.intersection(&exempt).collect();
    assert!(both.is_empty(), "{name}: mutants break {both:?} after all");
    let unknown: Vec<_> = exempt.difference(&all).collect();
    assert!(unknown.is_empty(), "{name}: {unknown:?} are no statements");
    let unbroken = all
        .iter()
        .filter(|id| !told.contains(**id) && !exempt.contains(**id));
    let unbroken: Vec<_> = unbroken.collect();
    assert!(unbroken.is_empty(), "{name}: nothing breaks {unbroken:?}");
}

fn of(kind: Kind) -> impl Iterator<Item = &'static str> {
    mutants::of(kind).map(|mutant| mutant.requirement)
}

#[test]
fn every_statement_of_acp_has_a_mutant() {
    complete("acp", of(Kind::Acp), &[]);
}

#[test]
fn every_statement_of_mcp_has_a_mutant() {
    complete("mcp", of(Kind::Mcp), &[]);
}

#[test]
fn a_mutant_names_a_statement_of_its_suites() {
    for (kind, names) in [
        (Kind::Acp, &["acp", "open-design"][..]),
        (Kind::AcpV2, &["acp-v2-draft"]),
        (Kind::Mcp, &["mcp"]),
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

/// The draft shares these with version 1, whose mutants break them before the same monitors.
const AS_IN_VERSION_1: [&str; 7] = [
    "V2-TR-01", "V2-TR-02", "V2-TR-06", "V2-TR-07", "V2-TR-08", "V2-TR-10", "V2-TR-17",
];

#[test]
fn every_statement_of_the_draft_has_a_mutant() {
    complete("acp-v2-draft", of(Kind::AcpV2), &AS_IN_VERSION_1);
    let acp: BTreeSet<&str> = of(Kind::Acp).collect();
    for id in AS_IN_VERSION_1 {
        let shared = id.trim_start_matches("V2-");
        assert!(acp.contains(shared), "nothing breaks {shared}");
    }
}

/// What no bundle can break: they are duties of the runner, which is ours. Its own tests break
/// them; a bundle only shows that they are met.
const DUTIES_OF_THE_RUNNER: [(&str, &str); 20] = [
    ("A29-REQ-07", "a program that is not there is A45-LIFE-02"),
    ("A29-SETUP-21", "the order of the stages"),
    ("A29-VER-08", "the order of the stages"),
    ("A44-LIFEC-01", "the order of the stages"),
    ("A45-SETUP-05", "the order of the stages"),
    ("A44-SEC-05", "the audit log is written by the runner"),
    ("A45-LIFE-07", "the audit log is written by the runner"),
    ("A45-SEC-03", "the audit log is written by the runner"),
    (
        "A45-AUTH-05",
        "logs are written, and secrets masked, by the runner",
    ),
    ("A44-SEC-08", "the runner kills what does not end"),
    (
        "A45-LIFE-04",
        "the runner starts nothing outside of the sandbox",
    ),
    ("A45-SESS-02", "the runner closes what is idle"),
    ("A45-CONT-07", "the runner writes the transcript"),
    (
        "A45-CONT-10",
        "the runner refuses before the agent hears of it",
    ),
    (
        "A45-MODE-06",
        "the runner refuses before the agent hears of it",
    ),
    (
        "A45-OPT-09",
        "the runner refuses before the agent hears of it",
    ),
    (
        "A45-OPT-10",
        "the runner refuses before the agent hears of it",
    ),
    ("A45-OPT-05", "the runner fills in the value"),
    ("A45-SETUP-02", "the runner keeps the ledger of setup steps"),
    ("A45-SETUP-07", "the runner tells the pending steps"),
];

#[test]
fn every_statement_of_the_lifecycle_has_a_mutant_or_is_the_runners() {
    let mutants = lifecycle::mutants();
    let broken = mutants.iter().map(|mutant| mutant.requirement);
    complete("lifecycle", broken, &DUTIES_OF_THE_RUNNER.map(|(id, _)| id));
}

/// Statements of Open Design that say what ACP says: an agent that is wrong there, the case that
/// shows it, and what must be told.
const AS_IN_ACP: [(&str, &str, &[&str]); 9] = [
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
    ("MOCK_MUTANT=acp-pt-11-deaf", "od-35-cancel", &["OD-35"]),
];

#[test]
fn every_statement_of_open_design_is_broken_by_something() {
    let shared: Vec<&str> = AS_IN_ACP
        .iter()
        .flat_map(|(.., ids)| *ids)
        .copied()
        .collect();
    complete("open-design", of(Kind::Acp), &shared);
    let suite = ["--mock", "acp", "--suite", "open-design", "--timeout", "3"];
    for (wrong, case, statements) in AS_IN_ACP {
        let (_, right) = run(&[&suite[..], &["--only", case]].concat());
        let (_, report) = run(&[&suite[..], &["--only", case, "--env", wrong]].concat());
        for id in statements {
            let blames = |v: &&str| matches!(*v, "fail" | "warn");
            let told = verdicts(&report, id);
            assert!(
                told.iter().any(blames),
                "{wrong} is not blamed for {id}: {told:?}"
            );
            let told = verdicts(&right, id);
            assert!(
                !told.iter().any(blames),
                "{id} of the correct mock: {told:?}"
            );
        }
    }
}
