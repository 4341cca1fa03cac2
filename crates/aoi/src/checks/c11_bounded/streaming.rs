//! Checks whether results arrive incrementally.

use std::sync::Arc;
use std::time::Duration;

use crate::capture::Capture;
use crate::checks::ok_run;
use crate::model::CheckId;
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::session::{LintSession, RunOptions};
use crate::stream::{EventLine, EventStream};
use crate::verdicts::Verdicts;

/// Runs that take no longer than this need not stream.
const MIN_STREAMED: Duration = Duration::from_millis(500);
/// Number of results from which the `ok` run is a long list. A shorter one may come from a single
/// step that takes long.
const LONG_LIST: usize = 20;
/// Number of results from which all but the first arriving together looks like one write.
const MANY: usize = 5;

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

/// Checks with the `slow` run whether results arrive while the command is still working, and with
/// the `ok` run if that takes long by itself.
pub async fn streams(session: &LintSession, command: &ProbeCommand, verdicts: &mut Verdicts<'_>) {
    let (ok_words, ok_how) = ok_run(session, command);
    let name = "ok, for its duration";
    let ok = session.run(&command.name, name, &ok_words, ok_how.clone());
    let ok = ok.await;
    let own_time = ok.elapsed.saturating_sub(ok.delay);
    if ok.end.is_success() && own_time > MIN_STREAMED {
        let timed = TimedLine {
            name: "ok",
            words: ok_words,
            how: ok_how,
        };
        timed.check(session, command, &ok, verdicts).await;
    }
    match &command.slow {
        Some(slow) => {
            let timed = TimedLine {
                name: "slow",
                words: session.fill_shared(command, slow),
                how: RunOptions {
                    slow: true,
                    ..RunOptions::default()
                },
            };
            timed.check(session, command, &ok, verdicts).await;
        }
        None => {
            let why = "the probe file has no `slow` run for the command";
            verdicts.not_applicable(&STREAMS, why);
        }
    }
}

/// A command line that takes long.
struct TimedLine {
    name: &'static str,
    words: Vec<String>,
    how: RunOptions,
}

impl TimedLine {
    async fn check(
        &self,
        session: &LintSession,
        command: &ProbeCommand,
        ok: &Capture,
        verdicts: &mut Verdicts<'_>,
    ) {
        let mut violation = None;
        // Repeated, because the machine may have been busy.
        for alone in [false, true, true] {
            let how = RunOptions {
                alone,
                ..self.how.clone()
            };
            let run = session.run(&command.name, self.name, &self.words, how);
            let run = run.await;
            match self.judge(&run, ok) {
                Arrivals::Streamed => {
                    let proof = "the first result arrives long before the summary";
                    return verdicts.pass(&STREAMS, proof);
                }
                Arrivals::Unverified(why) => return verdicts.not_verified(&STREAMS, why),
                Arrivals::NotApplicable(why) => return verdicts.not_applicable(&STREAMS, why),
                Arrivals::Held(message) => {
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

    /// `ok` is a plain run, which shows how long the start of the tool takes.
    fn judge(&self, run: &Arc<Capture>, ok: &Capture) -> Arrivals {
        let name = self.name;
        let stream = EventStream::parse(&run.stdout);
        let is_result = |line: &&EventLine| match line.kind() {
            Some("aoi:check") => true,
            Some(kind) => !kind.starts_with("aoi:"),
            None => false,
        };
        let arrival_time = |line: &EventLine| run.arrival_time(line.offset + 1);
        let results: Vec<&EventLine> = stream.lines.iter().filter(is_result).collect();
        let (Some(begun), Some(first), Some(last)) = (
            // The startup time is not counted.
            stream.lines.first().and_then(arrival_time),
            results.first().and_then(|line| arrival_time(line)),
            stream.summary().and_then(arrival_time),
        ) else {
            return Arrivals::Unverified(format!("the `{name}` run has no results or no summary"));
        };
        if results.len() < 2 {
            return Arrivals::NotApplicable(format!("the `{name}` run has only one result"));
        }
        if self.name == "ok" && results.len() < LONG_LIST {
            return Arrivals::NotApplicable("the `ok` run is not a long list".to_owned());
        }
        if last <= MIN_STREAMED {
            return Arrivals::NotApplicable(format!(
                "the `{name}` run takes less than half a second"
            ));
        }
        let worked = last.saturating_sub(begun);
        if worked <= MIN_STREAMED {
            // Everything arrived at once: the output was held back, or the startup was slow.
            let startup = ok.arrival_time(1).unwrap_or_default();
            if self.name == "ok" || begun.saturating_sub(startup) <= MIN_STREAMED {
                return Arrivals::NotApplicable(format!(
                    "apart from its startup, the `{name}` run takes less than half a second"
                ));
            }
        }
        let since_start = |at: Duration| at.saturating_sub(begun);
        if worked <= MIN_STREAMED || 2 * since_start(first) >= worked {
            return Arrivals::Held(format!(
                "the first result arrives after {} ms, the summary after {} ms",
                first.as_millis(),
                last.as_millis()
            ));
        }
        // A tool may write the first result at once and hold back the others.
        let second = results.get(1).and_then(|line| arrival_time(line));
        match second {
            Some(second) if results.len() >= MANY && 10 * since_start(second) >= 9 * worked => {
                Arrivals::Held(format!(
                    "the first result arrives after {} ms, the other {} results after {} ms, with \
                     the summary",
                    first.as_millis(),
                    results.len() - 1,
                    second.as_millis()
                ))
            }
            _ => Arrivals::Streamed,
        }
    }
}

/// When the results of a run arrived.
enum Arrivals {
    Streamed,
    /// They were held back.
    Held(String),
    Unverified(String),
    NotApplicable(String),
}
