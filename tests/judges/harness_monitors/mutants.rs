//! Every mutant whose requirement a monitor checks.

use agentproto_mock::AgentKind;
use agentproto_mock::mutants;

use crate::harness_monitors::conversation::{Conversation, MonitorFindings};
use crate::harness_monitors::scripts::*;

type Script = fn(&mut Conversation);

/// Requirements that the monitors can check in any conversation.
const MONITORED: &[&str] = &[
    "TR-01", "TR-02", "TR-03", "TR-04", "TR-05", "TR-06", "TR-07", "TR-08", "TR-09", "TR-10",
    "TR-17", "TR-22", "IN-01", "IN-06", "IN-08", "IN-11", "AU-01", "AU-02", "AU-03", "AU-04",
    "SE-01", "SE-02", "SE-03", "SE-14", "CL-02", "LI-01", "LI-02", "LI-03", "LI-07", "PT-01",
    "PT-02", "PT-10", "PT-18", "PT-19", "CR-01", "CR-02", "UP-01", "TC-01", "TC-02", "TC-03",
    "TC-04", "TC-05", "TC-06", "TC-07", "TC-08", "TC-09", "TC-10", "PE-01", "PE-02", "PL-01",
    "PL-02", "MO-01", "MO-04", "CO-01", "CO-02", "CO-03", "CO-06", "CO-08", "SL-01", "SL-02",
    "NO-01", "NO-02", "FS-01", "FS-02", "FS-03", "FS-04", "TE-01", "TE-02", "TE-03", "TE-04",
    "TE-05", "EL-01", "EL-02", "EL-03", "EL-04", "EL-06", "EX-01", "EX-02", "EX-03", "EX-07",
    "EX-08",
];

/// Mutants of these requirements that only cases can find: an error can be a legal response.
const ONLY_BY_CASES: &[&str] = &["acp-se-01-refuses"];

/// The script and the scenario that trigger a mutant's defect.
fn way(mutant: &str) -> (Script, &'static str) {
    let part = mutant.strip_prefix("acp-").unwrap_or(mutant);
    match part {
        "el-01-form-for-url" => (pages, "default"),
        _ if part.starts_with("el-04") || part.starts_with("el-06") => (pages, "elicitation-url"),
        "tr-17-same-request-id" => (two_questions, "default"),
        "tr-22-snake-case" => (everything, "default"),
        "tr-06-neither" | "tr-06-no-id" | "tr-09-no-answer" => (basics, "default"),
        "tr-10-answers-cancel" => (cancel, "default"),
        "tc-09-line-zero" => (one_turn, "tools"),
        "te-04-killed-not-released" => (one_turn, "terminal"),
        "au-02-terminal-unasked" => (starts_modestly, "auth"),
        "in-11-uses-everything" => (without_services, "default"),
        "fs-01-reads-unasked"
        | "fs-02-writes-unasked"
        | "te-01-terminal-unasked"
        | "el-01-form-unasked" => (without_services, "default"),
        "cr-02-answers" => (basics, "default"),
        "up-01-unknown-variant" | "up-01-bare-text" => (hello, "default"),
        "ex-03-custom-unanswered" | "ex-04-custom-taken" | "ex-05-dies-on-unknown" => {
            (basics, "default")
        }
        _ if ["pt-10", "pt-11", "pt-12"]
            .iter()
            .any(|pt| part.starts_with(pt)) =>
        {
            (cancel, "default")
        }
        _ if part.starts_with("pt-19") => (one_turn, "updates"),
        _ if part.starts_with("no-") => (modest_turn, "updates"),
        _ => match part.split('-').next().unwrap_or_default() {
            "tr" => (basics, "default"),
            "in" => (starts, "default"),
            "au" => (starts, "auth"),
            "se" | "cl" | "li" | "ld" | "rs" | "de" | "ad" => (sessions, "default"),
            "cr" => (cancel_request, "default"),
            "mo" | "co" => (modes, "modes"),
            "up" | "tc" | "pe" | "pl" | "fs" | "te" | "el" => (everything, "default"),
            _ => (hello, "default"),
        },
    }
}

fn run(script: Script, scenario: &str, mutant: Option<&str>) -> MonitorFindings {
    let mut args = vec!["--scenario", scenario];
    args.extend(mutant.iter().flat_map(|id| ["--mutant", *id]));
    let mut conversation = Conversation::start(&args);
    script(&mut conversation);
    conversation.finish()
}

/// Requirements that a mutant breaks in addition to its own.
fn also_broken(mutant: &str) -> &'static [&'static str] {
    match mutant {
        // The client announced no capabilities, so each use of a service breaks both requirements.
        "acp-fs-01-reads-unasked"
        | "acp-fs-02-writes-unasked"
        | "acp-te-01-terminal-unasked"
        | "acp-el-01-form-unasked" => &["IN-11"],
        "acp-in-11-uses-everything" => &["EL-01", "FS-01", "FS-02", "TE-01"],
        // `items` is a member that the protocol does not define.
        "acp-li-01-items" => &["EX-01"],
        _ => &[],
    }
}

fn check(families: &[&str]) {
    let mut wrong = Vec::new();
    for mutant in mutants::of(AgentKind::Acp) {
        let family = mutant.requirement.split('-').next().unwrap_or_default();
        let is_monitored = MONITORED.contains(&mutant.requirement);
        if !families.contains(&family) || !is_monitored || ONLY_BY_CASES.contains(&mutant.id) {
            continue;
        }
        // These scripts have no model.
        if mutant.scenario == "model" {
            continue;
        }
        let (script, scenario) = way(mutant.id);
        let findings = run(script, scenario, Some(mutant.id));
        let mut expected = also_broken(mutant.id).to_vec();
        expected.push(mutant.requirement);
        expected.sort_unstable();
        let broken = findings.violated();
        if broken != expected {
            wrong.push(format!(
                "{}: found {broken:?}, expected {expected:?}\n{}",
                mutant.id,
                findings.describe()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn transport() {
    check(&["TR", "CR"]);
}

#[test]
fn starts_and_sessions() {
    check(&["IN", "AU", "EX", "SE", "CL", "LI"]);
}

#[test]
fn turns_and_updates() {
    check(&["PT", "UP", "TC", "PL", "SL", "NO"]);
}

#[test]
fn settings_and_services() {
    check(&["PE", "MO", "CO", "FS", "TE", "EL"]);
}

#[test]
fn the_conforming_mock_agent_breaks_nothing() {
    let ways: [(Script, &str); 24] = [
        (basics, "default"),
        (hello, "default"),
        (everything, "default"),
        (without_services, "default"),
        (sessions, "default"),
        (cancel, "default"),
        (cancel_request, "default"),
        (two_questions, "default"),
        (modes, "modes"),
        (starts, "auth"),
        (starts_modestly, "auth"),
        (one_turn, "tools"),
        (one_turn, "terminal"),
        (one_turn, "updates"),
        (modest_turn, "updates"),
        (one_turn, "rich"),
        (one_turn, "bare"),
        (one_turn, "fs"),
        (one_turn, "plan"),
        (one_turn, "elicitation"),
        (one_turn, "permission"),
        (pages, "default"),
        (pages, "elicitation-url"),
        (one_turn, "thought"),
    ];
    let mut held = std::collections::BTreeSet::new();
    for (script, scenario) in ways {
        let findings = run(script, scenario, None);
        assert_eq!(
            findings.violated(),
            Vec::<&str>::new(),
            "{scenario}\n{}",
            findings.describe()
        );
        held.extend(findings.passed());
    }
    // Requirements that these conversations need not cover.
    let may_be_untouched = [
        "TR-04", "IN-11", "FS-01", "FS-02", "TE-01", "EL-04", "EL-06", "EX-08",
    ];
    let mut untouched = MONITORED.to_vec();
    untouched.retain(|id| !held.contains(id) && !may_be_untouched.contains(id));
    assert_eq!(untouched, Vec::<&str>::new());
}

/// The monitors must not report requirements that a mutant of another requirement keeps.
#[test]
fn other_mutants_cause_no_false_failures() {
    let mut wrong = Vec::new();
    for mutant in mutants::of(AgentKind::Acp) {
        // The first mutant leaves its turn open at the end of input, which is reported. The next two
        // never exit after the end of input. The last opens no sessions, so responses are missing.
        let endless = [
            "acp-pt-11-ignored",
            "acp-tr-18-stays",
            "acp-tr-19-stays-with-child",
            "acp-od-19-silent",
        ];
        if MONITORED.contains(&mutant.requirement) || endless.contains(&mutant.id) {
            continue;
        }
        let (script, scenario) = way(mutant.id);
        let findings = run(script, scenario, Some(mutant.id));
        let mut broken = findings.violated();
        // A failure of the mutant's own requirement is not a false failure.
        broken.retain(|id| *id != mutant.requirement);
        if broken != also_broken(mutant.id) {
            wrong.push(format!(
                "{}: found {broken:?}\n{}",
                mutant.id,
                findings.describe()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
