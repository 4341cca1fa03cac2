//! Decides which cases of a run are started, and runs one of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::case::{self, CaseOutcome, NoVerdict};
use super::trial::Trial;
use super::{RunConfig, RunOptions};
use crate::suite::{Case, CaseStep, StartState, StepKind, Suite};

pub fn at(suites: &[Suite], suite: usize, case: usize) -> Option<(&Suite, &Case)> {
    let of = suites.get(suite)?;
    Some((of, of.cases.get(case)?))
}

/// Whether a case logs out.
pub fn logs_out(steps: &[CaseStep]) -> bool {
    steps.iter().any(|step| match &step.kind {
        StepKind::Call(request, _) | StepKind::Send(request) => {
            ["logout", "auth/logout"].contains(&request.method.as_str())
        }
        StepKind::ForEach { steps, .. }
        | StepKind::Repeat { steps, .. }
        | StepKind::When { steps, .. } => logs_out(steps),
        _ => false,
    })
}

/// The cases of this run, as indexes of suite and case.
pub fn selected_cases(suites: &[Suite], options: &RunOptions) -> Vec<(usize, usize)> {
    let mut work = Vec::new();
    for (suite, of) in suites.iter().enumerate() {
        for (index, case) in of.cases.iter().enumerate() {
            let only = &options.only;
            if only.is_everything() || only.needs_all_cases || only.cases.contains(&case.id) {
                work.push((suite, index));
            }
        }
    }
    match options.shard {
        Some((index, of)) => {
            let mine = work
                .into_iter()
                .enumerate()
                .filter(|(at, _)| at % of.max(1) == index.saturating_sub(1));
            mine.map(|(_, case)| case).collect()
        }
        None => work,
    }
}

/// Runs one case. `None` if the run is interrupted.
pub async fn play(
    suite: &Suite,
    case: &Case,
    config: &RunConfig,
    stop: &AtomicBool,
) -> Option<CaseOutcome> {
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    let mut outcome = tokio::select! {
        outcome = Box::pin(case::run_case(case, suite.protocol, config)) => outcome,
        () = wait_for_stop(stop) => return None,
    };
    redact(&mut outcome, config);
    Some(outcome)
}

pub fn redact(outcome: &mut CaseOutcome, config: &RunConfig) {
    let bundle = config.launcher.bundle().map(Arc::as_ref);
    config.secrets.redact_outcome(outcome, bundle);
}

/// The cases that need no process, because the first start of the agent already shows that they
/// cannot have a verdict. If the agent is dead, the first case of each suite still runs to show it.
pub fn excluded_cases(
    suites: &[Suite],
    work: &[(usize, usize)],
    trials: &[Trial],
    config: &RunConfig,
) -> HashMap<(usize, usize), NoVerdict> {
    let mut excluded = HashMap::new();
    let first = first_cases(suites, work);
    for (suite, case) in work {
        let Some((of, the_case)) = at(suites, *suite, *case) else {
            continue;
        };
        let Some(trial) = trials.iter().find(|trial| trial.protocol == of.protocol) else {
            continue;
        };
        let is_first = first.get(suite) == Some(case);
        if let Some(why) = trial.excludes(the_case, is_first, config) {
            excluded.insert((*suite, *case), why);
        }
    }
    excluded
}

/// For each suite, the case about the response to `initialize`, or else the first case that starts
/// with it.
fn first_cases(suites: &[Suite], work: &[(usize, usize)]) -> HashMap<usize, usize> {
    let mut first = HashMap::new();
    for wants_response in [true, false] {
        for (suite, case) in work {
            let Some((of, the_case)) = at(suites, *suite, *case) else {
                continue;
            };
            let covers = |id: &String| of.requirement(id).and_then(|r| r.covers.as_deref());
            let is_about = |id: &String| covers(id) == Some("initialize");
            let fits = !wants_response || the_case.decides.iter().any(is_about);
            if fits && the_case.begin == StartState::Process {
                first.entry(*suite).or_insert(*case);
            }
        }
    }
    first
}

pub async fn wait_for_stop(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
