//! The lifecycle suite. tests/judges/certify/selftest.rs tests that every mutant fails the
//! requirement that it breaks, and that no conforming bundle fails.

use std::path::Path;
use std::process::Command;

use crate::certify::complete::RUNNER_DUTIES;
use agentproto_harness::lifecycle;
use agentproto_harness::model::{Report, Verdict};
use agentproto_harness::suite::{self, StepKind};
use agentproto_runtime::context::Sandboxing;
use agentproto_sandbox::helper;
use agentproto_selftest::lifecycle::{BundleSpec, Mutant, mutants, run_suite, variants};
use agentproto_suites::register;
use futures::stream::{self, StreamExt};
use serde_json::Value;

/// Runs several trials at a time, because they mostly wait.
fn run_trials<'m>(
    all: impl IntoIterator<Item = (&'m BundleSpec, Vec<String>)>,
    sandboxing: Sandboxing,
) -> Vec<Report> {
    helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let trials = all.into_iter().map(|(made, only)| async move {
        let report = run_suite(made, &only, 2, sandboxing).await;
        report.expect("a report")
    });
    runtime.block_on(stream::iter(trials).buffered(4).collect())
}

fn is_failure(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fail | Verdict::Warn | Verdict::Error)
}

#[test]
fn the_suite_checks_registered_requirements_with_suitable_probes() {
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
        assert!(decided, "no case checks {}", requirement.id);
    }
    for case in &suite.cases {
        for step in &case.steps {
            let StepKind::Probe(probe) = &step.kind else {
                panic!("{} has a step that is not a probe", case.id);
            };
            for id in &case.decides {
                let can = lifecycle::PROBES.decided_by(probe).contains(&id.as_str());
                assert!(can, "{probe} cannot check {id}");
            }
        }
    }
    let used = |name: &str| {
        let mut steps = suite.cases.iter().flat_map(|c| &c.steps);
        steps.any(|s| matches!(&s.kind, StepKind::Probe(probe) if probe == name))
    };
    for name in lifecycle::PROBES.names() {
        assert!(used(name), "no case uses {name}");
    }
}

/// The suite checks every requirement whose register entry proposes it.
#[test]
fn the_register_and_the_suite_agree() {
    let suite = suite::built_in("lifecycle").expect("there").expect("right");
    for requirement in register() {
        if requirement.decided_by.contains("case:lifecycle") {
            let decided = suite.requirement(requirement.id).is_some();
            assert!(decided, "{} is not in the suite", requirement.id);
        }
    }
}

#[test]
fn every_mutant_breaks_a_requirement_of_the_suite() {
    let suite = suite::built_in("lifecycle").expect("there").expect("right");
    assert!(mutants().len() >= 20 && variants().len() >= 4);
    let mutants = mutants();
    let mut ids: Vec<&str> = mutants.iter().map(|m| m.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), mutants.len(), "duplicate ids");
    for mutant in &mutants {
        assert!(
            suite.requirement(mutant.requirement).is_some(),
            "{}",
            mutant.id
        );
        assert!(matches!(mutant.verdict.as_str(), "fail" | "warn"));
    }
}

/// Each mutant has one defect and breaks one requirement. Runs the whole suite with mutants of all
/// kinds.
#[test]
fn mutants_break_no_other_requirement() {
    let chosen = [
        "lc-exits-at-start",
        "lc-declares-images",
        "lc-mode-dropped",
        "lc-option-variable",
        "lc-forgets-turns",
        "lc-unknown-event",
        "lc-two-ends",
        "lc-deaf-to-cancel",
        "lc-leaves-daemon",
    ];
    let mutants = mutants();
    let chosen: Vec<&Mutant> = mutants.iter().filter(|m| chosen.contains(&m.id)).collect();
    let reports = run_trials(
        chosen.iter().map(|m| (&m.data, Vec::new())),
        Sandboxing::Auto,
    );
    let mut others = Vec::new();
    for (mutant, report) in chosen.iter().zip(&reports) {
        let blamed = report.results.iter().filter(|r| is_failure(r.verdict));
        let wrongly = blamed.filter(|r| r.requirement != mutant.requirement);
        others.extend(wrongly.map(|r| format!("{}: {} {}", mutant.id, r.requirement, r.message)));
        assert!(report.summary.fail > 0, "{} survived", mutant.id);
    }
    assert_eq!(chosen.len(), 9);
    assert!(others.is_empty(), "{}", others.join("\n"));
}

/// Duties that no bundle can break, because our runner performs them. The probes of the suite
/// observe them for conforming bundles, so each passes as long as the runner performs it.
#[test]
fn our_runner_performs_the_duties_that_the_suite_observes() {
    agentproto_suites::proves!(
        "A29-SETUP-21",
        "A29-VER-08",
        "A44-LIFEC-01",
        "A44-SEC-05",
        "A44-SEC-08",
        "A45-AUTH-05",
        "A45-CONT-07",
        "A45-CONT-10",
        "A45-LIFE-04",
        "A45-LIFE-07",
        "A45-MODE-06",
        "A45-OPT-05",
        "A45-OPT-09",
        "A45-OPT-10",
        "A45-SETUP-02",
        "A45-SETUP-05",
        "A45-SETUP-07",
    );
    let duties: Vec<String> = RUNNER_DUTIES
        .iter()
        .map(|(id, _)| (*id).to_owned())
        .collect();
    let mut variants = variants();
    variants.retain(|v| ["mock-acp", "login", "setup-once"].contains(&v.name));
    let trials = variants.iter().map(|v| (&v.data, duties.clone()));
    let reports = run_trials(trials, Sandboxing::Auto);
    let rows: Vec<_> = reports.iter().flat_map(|r| &r.results).collect();
    for id in &duties {
        let mut verdicts = rows.iter().filter(|row| row.requirement == *id);
        let failed = verdicts.clone().find(|row| is_failure(row.verdict));
        assert!(failed.is_none(), "{id}: {failed:?}");
        let passed = verdicts.any(|row| row.verdict == Verdict::Pass);
        assert!(passed, "{id} is never observed");
    }
}

#[test]
fn without_a_sandbox_its_requirements_have_no_verdict() {
    let variants = variants();
    let first = variants.first().expect("one");
    let reports = run_trials([(&first.data, vec!["sandbox".to_owned()])], Sandboxing::Off);
    let rows = reports.iter().flat_map(|r| &r.results);
    let verdicts: Vec<Verdict> = rows.map(|r| r.verdict).collect();
    assert_eq!(verdicts, [Verdict::NotVerified; 2]);
}

/// Runs `certify` with its own state directory.
fn certify(args: &[&str]) -> (i32, Value, String) {
    let home = tempfile::tempdir().expect("a directory");
    let program = Path::new(env!("CARGO_BIN_EXE_agentproto"));
    let beside = program.parent().expect("a directory").to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(beside).chain(std::env::split_paths(&path)));
    let run = Command::new(program)
        .args(["certify", "--output", "json"])
        .args(args)
        .env("AGENTPROTO_HOME", home.path())
        .env("PATH", path.expect("a path"))
        .output()
        .expect("runs");
    let report = serde_json::from_slice(&run.stdout).unwrap_or(Value::Null);
    let errors = String::from_utf8_lossy(&run.stderr).into_owned();
    (run.status.code().unwrap_or(-1), report, errors)
}

#[test]
fn a_slug_is_certified_for_its_protocol_and_its_lifecycle() {
    let (code, report, errors) = certify(&["mock-acp", "--only", "TR-11", "--only", "install"]);
    assert_eq!(code, 0, "{errors}");
    let rows = report["results"].as_array().expect("rows");
    let of = |suite: &str| {
        rows.iter()
            .any(|r| r["suite"] == suite && r["verdict"] == "pass")
    };
    assert!(of("acp") && of("lifecycle"), "{report:#}");
    assert_eq!(report["target"]["kind"], "bundle");
}

#[test]
fn an_unknown_mode_or_option_is_a_usage_error() {
    let (code, report, errors) = certify(&["mock-acp", "--mode", "carefull"]);
    assert_eq!((code, report), (64, Value::Null));
    assert!(errors.contains("did you mean `careful`?"), "{errors}");
    let (code, _, errors) = certify(&["mock-acp", "--option", "patience=99"]);
    assert_eq!(code, 64, "{errors}");
    let (code, _, _) = certify(&["no-such-agent"]);
    assert_eq!(code, 66);
}

#[test]
fn a_bundle_that_cannot_be_prepared_still_gets_verdicts() {
    let dir = tempfile::tempdir().expect("a directory");
    let mutants = mutants();
    let old = mutants.iter().find(|m| m.id == "lc-version-out-of-range");
    old.expect("there").data.write(dir.path()).expect("made");
    let named = dir.path().to_string_lossy();
    let (code, report, errors) = certify(&[&named, "--suite", "lifecycle"]);
    assert_eq!(code, 69, "{errors}");
    let rows = report["results"].as_array().expect("rows");
    let of = |id: &str| rows.iter().find(|r| r["requirement"] == id).expect("a row");
    assert_eq!(of("A29-VER-06")["verdict"], "fail");
    assert_eq!(of("A45-LIFE-05")["verdict"], "not_verified");
    let why = of("A45-LIFE-05")["message"].as_str().expect("a text");
    assert!(why.starts_with("version_mismatch: "), "{why}");
    assert_eq!(report["summary"]["fail"], 1, "{report:#}");
    assert_eq!(report["not_started"]["code"], "version_mismatch");
}

#[test]
fn an_install_that_was_not_confirmed_is_an_error_without_a_report() {
    let dir = tempfile::tempdir().expect("a directory");
    let manifest = |requires: &str| {
        format!(
            "---\nname: absent\nid: absent\ndescription: A program that is not installed.\n\
             version: 1.0.0\nbin: agentproto-absent\nprotocol: acp\nacp: ./ACP.md\n{requires}\
             install:\n  - {{ method: download, url: \"https://downloads.example/absent\", \
             extract_bin: absent, verify_sha256: {} }}\n---\n",
            "a".repeat(64)
        )
    };
    std::fs::write(dir.path().join("AGENT-CLI.md"), manifest("")).expect("written");
    let acp = "---\nschema: acp/v1\nid: absent\nrole: server\n---\n";
    std::fs::write(dir.path().join("ACP.md"), acp).expect("written");
    let named = dir.path().to_string_lossy();
    let (code, report, errors) = certify(&[&named]);
    assert_eq!((code, report), (69, Value::Null), "{errors}");
    assert!(
        errors.starts_with("agentproto: install_failed: "),
        "{errors}"
    );
    assert!(errors.contains("add `--yes` to install it"), "{errors}");
    // What this machine does not allow is a verdict.
    let other = manifest("requires: { os: [windows] }\n");
    std::fs::write(dir.path().join("AGENT-CLI.md"), other).expect("written");
    let (code, report, errors) = certify(&[&named, "--suite", "lifecycle"]);
    assert_eq!(code, 69, "{errors}");
    assert_eq!(
        report["not_started"]["code"], "install_failed",
        "{report:#}"
    );
    assert_eq!(report["summary"]["error"], 0, "{report:#}");
}

#[test]
fn probes_are_only_valid_in_their_suites() {
    let with = |protocol: &str, step: &str| {
        let text = format!(
            "suite: agentproto.suite/v1\nname: x\nprotocol: {protocol}\nrequirements:\n  - {{ id: X, statement: x }}\ncases:\n  - id: x\n    decides: X\n    steps: [{{ {step} }}]\n"
        );
        let read = suite::parse(&text);
        read.map(drop).map_err(|mistakes| {
            mistakes
                .iter()
                .map(|m| m.message.clone())
                .collect::<String>()
        })
    };
    assert_eq!(with("lifecycle", "probe: idle"), Ok(()));
    let unknown = with("lifecycle", "probe: idel").expect_err("unknown");
    assert!(unknown.contains("unknown probe `idel`"), "{unknown}");
    let other = with("lifecycle", "alive: true").expect_err("no probe");
    assert!(other.contains("must be a `probe`"), "{other}");
    let misplaced = with("acp", "probe: idle").expect_err("no bundle");
    assert!(misplaced.contains("protocol: lifecycle"), "{misplaced}");
    let other = with("lifecycle", "probe: overlap").expect_err("of another suite");
    assert!(other.contains("not a probe of lifecycle suites"), "{other}");
    assert_eq!(with("sessions", "probe: overlap"), Ok(()));
}
