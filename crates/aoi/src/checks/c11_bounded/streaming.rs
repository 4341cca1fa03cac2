//! Checks whether results arrive incrementally.

use std::time::Duration;

use crate::checks::ok_run;
use crate::model::CheckId;
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::session::{LintSession, RunOptions};
use crate::stream::{EventLine, EventStream};
use crate::verdicts::Verdicts;

/// Runs that take no longer than this need not stream.
const MIN_STREAMED: Duration = Duration::from_millis(500);

pub(super) static STREAMS: Rule = Rule {
    id: "AOI-11.streams",
    check: CheckId::Number(11),
    level: Level::Must,
    section: "§8.3",
    requirement: "Results arrive one by one while the command is working, not all at the end",
    why: "Otherwise a caller that waits for the first result waits for all of them.",
    hint: "Write and flush each event as soon as it is known.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-0-05", "AOI-21-01"],
};

/// Checks with the `slow` run whether results arrive while the command is still working.
pub async fn streams(session: &LintSession, command: &ProbeCommand, verdicts: &mut Verdicts<'_>) {
    let Some(slow) = &command.slow else {
        let why = "the probe file has no `slow` run for the command";
        return verdicts.not_applicable(&STREAMS, why);
    };
    let words = session.fill(slow, &[], session.shared_dirs());
    let mut violation = None;
    // Repeated, because the machine may have been busy.
    for alone in [false, true, true] {
        let how = RunOptions {
            alone,
            slow: true,
            ..RunOptions::default()
        };
        let run = session.run(&command.name, "slow", &words, how).await;
        let stream = EventStream::parse(&run.stdout);
        let is_result = |line: &&EventLine| match line.kind() {
            Some("aoi:check") => true,
            Some(kind) => !kind.starts_with("aoi:"),
            None => false,
        };
        let results: Vec<&EventLine> = stream.lines.iter().filter(is_result).collect();
        let arrival_time = |line: &EventLine| run.arrival_time(line.offset + 1);
        let times = (
            // The startup time is not counted.
            stream.lines.first().and_then(arrival_time),
            results.first().and_then(|line| arrival_time(line)),
            stream.summary().and_then(arrival_time),
        );
        let (Some(begun), Some(first), Some(last)) = times else {
            let why = "the `slow` run has no results or no summary";
            return verdicts.not_verified(&STREAMS, why);
        };
        if results.len() < 2 {
            return verdicts.not_applicable(&STREAMS, "the `slow` run has only one result");
        }
        if last <= MIN_STREAMED {
            let why = "the `slow` run takes less than half a second";
            return verdicts.not_applicable(&STREAMS, why);
        }
        let message = format!(
            "the first result arrives after {} ms, the summary after {} ms",
            first.as_millis(),
            last.as_millis()
        );
        let worked = last.saturating_sub(begun);
        match worked > MIN_STREAMED {
            true if 2 * first.saturating_sub(begun) < worked => {
                return verdicts.pass(&STREAMS, "the first result arrives long before the summary");
            }
            // Everything arrived at once: the output was held back, or the startup was slow.
            false if begun.saturating_sub(start(session, command).await) <= MIN_STREAMED => {
                let why = "apart from its startup, the `slow` run takes less than half a second";
                return verdicts.not_applicable(&STREAMS, why);
            }
            _ => {
                let is_last = violation.is_some() && !run.is_delayed();
                violation = Some((message, run));
                if is_last {
                    break;
                }
            }
        }
    }
    if let Some((message, run)) = violation {
        verdicts.violation(&STREAMS, message, &run);
    }
}

/// Time until the first line of the `ok` run.
async fn start(session: &LintSession, command: &ProbeCommand) -> Duration {
    let (words, how) = ok_run(session, command);
    let run = session
        .run(&command.name, "startup time", &words, how)
        .await;
    run.arrival_time(1).unwrap_or_default()
}
