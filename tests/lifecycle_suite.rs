//! The lifecycle suite and its judge: every mutant is found by the statement that it breaks,
//! and no bundle that conforms is blamed.

use agentproto::cli::register;
use agentproto::harness::lifecycle::{self, Made, mutants, trial, variants};
use agentproto::harness::model::{Report, Verdict};
use agentproto::harness::suite::{self, What};
use agentproto::runtime::context::Sandboxing;
use agentproto::runtime::helper;

fn ready() {
    helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
}

fn judged(made: &Made, only: &[String], sandboxing: Sandboxing) -> Report {
    ready();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let report = runtime.block_on(trial(made, only, 4, sandboxing));
    report.expect("a report")
}

fn told(report: &Report, wanted: impl Fn(Verdict) -> bool) -> Vec<String> {
    let rows = report.results.iter().filter(|r| wanted(r.verdict));
    rows.map(|r| {
        format!(
            "{} {} {:?}: {}",
            r.case, r.requirement, r.verdict, r.message
        )
    })
    .collect()
}

fn blames(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fail | Verdict::Warn | Verdict::Error)
}

#[test]
fn the_suite_decides_statements_of_the_register_by_probes_that_can() {
    let suite = suite::built_in("lifecycle").expect("there").expect("right");
    let known: Vec<&str> = register().map(|s| s.id).collect();
    for requirement in &suite.requirements {
        assert!(
            known.contains(&requirement.id.as_str()),
            "{}",
            requirement.id
        );
        let decided = suite
            .cases
            .iter()
            .any(|c| c.decides.contains(&requirement.id));
        assert!(decided, "{} is decided by no case", requirement.id);
    }
    for case in &suite.cases {
        for step in &case.steps {
            let What::Probe(probe) = &step.what else {
                panic!("{} has a step that is no probe", case.id);
            };
            for id in &case.decides {
                let can = lifecycle::decided_by(probe).contains(&id.as_str());
                assert!(can, "{probe} does not decide {id}");
            }
        }
    }
    let used = |name: &str| {
        let mut steps = suite.cases.iter().flat_map(|c| &c.steps);
        steps.any(|s| matches!(&s.what, What::Probe(probe) if probe == name))
    };
    for name in lifecycle::names() {
        assert!(used(name), "no case uses {name}");
    }
}

/// Every statement of the register that proposes this suite is decided by it.
#[test]
fn the_register_and_the_suite_agree() {
    let suite = suite::built_in("lifecycle").expect("there").expect("right");
    for statement in register() {
        if statement.proposed.contains("case:lifecycle") {
            let decided = suite.requirement(statement.id).is_some();
            assert!(decided, "{} is not in the suite", statement.id);
        }
    }
}

#[test]
fn a_mutant_breaks_a_statement_of_the_suite() {
    let suite = suite::built_in("lifecycle").expect("there").expect("right");
    assert!(mutants().len() >= 20 && variants().len() >= 4);
    let mutants = mutants();
    let mut ids: Vec<&str> = mutants.iter().map(|m| m.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), mutants.len(), "ids are distinct");
    for mutant in &mutants {
        assert!(
            suite.requirement(mutant.requirement).is_some(),
            "{}",
            mutant.id
        );
        assert!(matches!(mutant.verdict, Verdict::Fail | Verdict::Warn));
    }
}

#[test]
fn every_mutant_is_found() {
    let mut missed = Vec::new();
    for mutant in mutants() {
        let report = judged(
            &mutant.bundle,
            &[mutant.requirement.to_owned()],
            Sandboxing::Auto,
        );
        let rows = report
            .results
            .iter()
            .filter(|r| r.requirement == mutant.requirement);
        let row = rows.last().expect("a verdict");
        let evidence = row.evidence.is_empty() && mutant.verdict == Verdict::Fail;
        if row.verdict != mutant.verdict || evidence {
            missed.push(format!(
                "{} ({}): {:?}, {}",
                mutant.id, mutant.requirement, row.verdict, row.message
            ));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn no_variant_is_blamed() {
    let mut blamed = Vec::new();
    for variant in variants() {
        let report = judged(&variant.bundle, &[], Sandboxing::Auto);
        let rows = told(&report, blames);
        assert!(
            report.summary.pass > 25,
            "{}: {:?}",
            variant.id,
            report.summary
        );
        blamed.extend(rows.into_iter().map(|row| format!("{}: {row}", variant.id)));
    }
    assert!(blamed.is_empty(), "{}", blamed.join("\n"));
}

#[test]
fn without_a_sandbox_nothing_is_said_about_one() {
    let report = judged(
        &variants()[0].bundle,
        &["sandbox".to_owned()],
        Sandboxing::Off,
    );
    assert!(
        report
            .results
            .iter()
            .all(|r| r.verdict == Verdict::NotVerified)
    );
}
