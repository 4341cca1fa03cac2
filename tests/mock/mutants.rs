//! Each mutant shows its defect on the wire, and the conforming mock agent never does.

use std::time::Duration;

use agentproto_mock::AgentKind;
use agentproto_mock::mutants;

use crate::client::{Client, LONG, Tape, start};

/// These show their defect only with a model or after a restart. `certify --selftest` runs them.
const ELSEWHERE: [&str; 20] = [
    "acp-pe-05-before-the-answer",
    "acp-pe-05-runs-rejected",
    "acp-pe-05-edits-rejected",
    "acp-pe-05-runs-cancelled",
    "acp-pe-06-unknown-option",
    "acp-tc-11-missing-file",
    "acp-pt-22-text-only",
    "acp-pt-22-no-resource",
    "acp-pt-23-text-lost",
    "acp-pt-21-swallows",
    "acp-pt-21-empty",
    "acp-pt-02-error-reason",
    "acp-pt-11-deaf-to-stalls",
    "acp-se-15-not-offered",
    "acp-se-15-result-lost",
    "acp-se-16-all-or-none",
    "acp-se-14-child-session",
    "acp-ld-09-forgets",
    "acp-rs-02-model-forgets",
    "acp-ld-07-old-directory",
];

/// How a mutant is detected: the messages to send, and a test of the lines received.
pub struct Sight {
    pub mutant: &'static str,
    pub scenario: &'static str,
    pub script: fn(&mut Client),
    pub seen: fn(&Tape) -> bool,
    /// The mutant leaves a request without a response, so the script must not wait for it long.
    pub silent: bool,
}

pub fn sight(mutant: &'static str, script: fn(&mut Client), seen: fn(&Tape) -> bool) -> Sight {
    Sight {
        mutant,
        scenario: "default",
        script,
        seen,
        silent: false,
    }
}

impl Sight {
    pub fn scenario(mut self, scenario: &'static str) -> Sight {
        self.scenario = scenario;
        self
    }
    pub fn silent(mut self) -> Sight {
        self.silent = true;
        self
    }

    fn run(&self, kind: AgentKind, mutant: Option<&str>) -> Tape {
        let mut args = vec![kind.as_str(), "--scenario", self.scenario];
        args.extend(mutant.iter().flat_map(|id| ["--mutant", *id]));
        let mut client = start(&args);
        if mutant.is_some() && self.silent {
            client.patience = Duration::from_millis(500);
        }
        (self.script)(&mut client);
        client.patience = LONG;
        client.finish()
    }
}

fn has_no_sight(id: &str) -> bool {
    ELSEWHERE.contains(&id)
}

/// Checks that every mutant that `ours` selects has a sight, and that each sight detects only its
/// mutant. Mutants in `ELSEWHERE` have none.
pub fn check(kind: AgentKind, ours: impl Fn(&str) -> bool, sights: &[Sight]) {
    let ids = mutants::of(kind).map(|mutant| mutant.id);
    let mut unseen: Vec<&str> = ids.filter(|id| ours(id)).collect();
    unseen.retain(|id| !has_no_sight(id));
    let mut wrong = Vec::new();
    for sight in sights {
        assert!(
            !has_no_sight(sight.mutant),
            "{} is in `ELSEWHERE`",
            sight.mutant
        );
        let before = unseen.len();
        unseen.retain(|id| *id != sight.mutant);
        assert!(
            unseen.len() < before,
            "duplicate or unknown mutant {}",
            sight.mutant
        );
        let mutated = sight.run(kind, Some(sight.mutant));
        if !(sight.seen)(&mutated) {
            wrong.push(format!(
                "{} does not show its defect:\n{}",
                sight.mutant,
                mutated.text()
            ));
        }
        let correct = sight.run(kind, None);
        if (sight.seen)(&correct) {
            wrong.push(format!(
                "{}: the conforming mock agent shows it as well:\n{}",
                sight.mutant,
                correct.text()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(unseen.is_empty(), "no test detects {unseen:?}");
}

#[test]
fn every_mutant_names_its_requirement() {
    let acp: Vec<_> = mutants::of(AgentKind::Acp).collect();
    let mcp: Vec<_> = mutants::of(AgentKind::Mcp).collect();
    assert!(acp.len() >= 60 && mcp.len() >= 20);
    for mutant in &acp {
        // The id starts with the requirement that it breaks.
        let stem = format!("acp-{}-", mutant.requirement.to_lowercase());
        assert!(mutant.id.starts_with(&stem), "{}", mutant.id);
        assert!(mutant.defect.ends_with('.'), "{}", mutant.id);
    }
    let mut ids: Vec<&str> = acp.iter().chain(&mcp).map(|m| m.id).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "duplicate ids");
}

#[test]
fn the_mutants_without_a_sight_exist() {
    let known: Vec<&str> = mutants::of(AgentKind::Acp).map(|m| m.id).collect();
    for id in ELSEWHERE {
        assert!(known.contains(&id), "unknown mutant {id}");
    }
}
