//! What discovery does beside printing a document: network access that it does not need, and files
//! that it writes.

use super::invocations::{self, DiscoveryRun};
use crate::isolation::IsolationKind;
use crate::model::{CheckId, TOOL};
use crate::observe::{Mutation, ObservedState};
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::session::LintSession;

pub(super) static WRITES: Rule = Rule {
    id: "AOI-01.discovery-writes",
    check: CheckId::Number(1),
    level: Level::Should,
    section: "§3",
    requirement: "`schema` and `capabilities` leave no files in the home and working directory, \
                  except caches and logs",
    why: "Discovery is the first thing that a caller does with an unknown tool, and must have no \
          side effects.",
    hint: "Answer discovery before anything is initialized. Write caches to XDG_CACHE_HOME.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-01"],
};

pub(super) static ATTEMPTS: Rule = Rule {
    id: "AOI-adv.discovery-network",
    check: CheckId::Advisory,
    level: Level::Open,
    section: "§3",
    requirement: "`schema` and `capabilities` do not even try to use a network",
    why: "On a machine without a network, the attempt may take until its timeout. Elsewhere, every \
          call of a caller contacts a server.",
    hint: "Do not check for updates and send no telemetry in discovery commands.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-01", "AOI-3-02"],
};

/// Checks both documents, as far as the tool prints them.
pub(super) async fn check(
    session: &LintSession,
    schema: Option<&DiscoveryRun>,
    capabilities: Option<&DiscoveryRun>,
) {
    let printed = [schema, capabilities].into_iter().flatten();
    let printed: Vec<&DiscoveryRun> = printed.filter(|run| run.json().is_some()).collect();
    check_attempts(session, &printed);
    check_writes(session, &printed).await;
}

fn check_attempts(session: &LintSession, printed: &[&DiscoveryRun]) {
    let reporter = session.reporter(TOOL);
    if printed.is_empty() {
        return reporter.not_verified(&ATTEMPTS, "the tool prints no discovery document");
    }
    let backend = session.isolation.backend.as_ref();
    if backend.is_none_or(|backend| backend.kind() == IsolationKind::Filter) {
        let why = "attempts can be counted only in a network namespace";
        return reporter.not_verified(&ATTEMPTS, why);
    }
    let tried = printed.iter().find(|run| run.capture.network_attempts > 0);
    match tried {
        Some(run) => {
            let count = run.capture.network_attempts;
            let times = agentproto_text::count(
                usize::try_from(count).unwrap_or(usize::MAX),
                "attempt",
                "attempts",
            );
            let line = run.words.join(" ");
            let message = format!("`{line}` works without a network, but makes {times} to use one");
            reporter.violation(&ATTEMPTS, message, &run.capture);
        }
        None => reporter.pass(&ATTEMPTS, "no attempt to use a network"),
    }
}

/// Runs both commands again, in directories that nothing else uses.
async fn check_writes(session: &LintSession, printed: &[&DiscoveryRun]) {
    let reporter = session.reporter(TOOL);
    let no_command = ProbeCommand::default();
    let mut seen = 0;
    for answer in printed {
        let Ok(dirs) = session.new_dirs() else {
            return reporter.not_verified(&WRITES, "a directory could not be created");
        };
        let place = Mutation {
            session,
            command: &no_command,
            dirs: dirs.clone(),
        };
        let before = ObservedState::files_only(place.files());
        let run = invocations::run_isolated(session, &answer.words, Some(dirs)).await;
        if !run.end.is_success() {
            continue;
        }
        seen += 1;
        let left = before.leftover_files(&place.files());
        if !left.is_empty() {
            let line = answer.words.join(" ");
            let paths = ObservedState::first_three(&left);
            let message = format!("`{line}` leaves files behind: {paths}");
            return reporter.violation(&WRITES, message, &run);
        }
    }
    match seen {
        0 => reporter.not_verified(&WRITES, "the tool prints no discovery document"),
        _ => reporter.pass(&WRITES, "the home and working directory stay empty"),
    }
}
