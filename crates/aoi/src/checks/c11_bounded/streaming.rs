//! Checks whether results arrive incrementally.

use std::time::Duration;

use crate::checks::plain;
use crate::model::Check;
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::session::{How, Session};
use crate::sheet::Sheet;
use crate::stream::{Line, Stream};

/// Runs that take no longer than this need not stream.
const AT_ONCE: Duration = Duration::from_millis(500);

pub(super) static STREAMS: Rule = Rule {
    id: "AOI-11.streams",
    check: Check::Number(11),
    level: Level::Must,
    section: "§8.3",
    demands: "Results arrive one by one while the command is working, not all at the end",
    why: "Otherwise a caller that waits for the first result waits for all of them.",
    hint: "Write and flush each event as soon as it is known.",
    topic: Topic::Bounds,
    register: &["AOI-0-05", "AOI-21-01"],
};

/// Checks with the `slow` run whether results arrive while the command is still working.
pub async fn streams(session: &Session, command: &Command, sheet: &mut Sheet<'_>) {
    let Some(slow) = &command.slow else {
        let why = "the probe file has no `slow` run for the command";
        return sheet.not_applicable(&STREAMS, why);
    };
    let words = session.fill(slow, &[], session.common());
    let mut wrong = None;
    // Repeated, because the machine may have been busy.
    for alone in [false, true, true] {
        let how = How {
            alone,
            slow: true,
            ..How::default()
        };
        let run = session.run(&command.name, "slow", &words, how).await;
        let stream = Stream::read(&run.stdout);
        let is_result = |line: &&Line| match line.kind() {
            Some("aoi:check") => true,
            Some(kind) => !kind.starts_with("aoi:"),
            None => false,
        };
        let results: Vec<&Line> = stream.lines.iter().filter(is_result).collect();
        let arrived = |line: &Line| run.arrived(line.offset + 1);
        let times = (
            // The startup time is not counted.
            stream.lines.first().and_then(arrived),
            results.first().and_then(|line| arrived(line)),
            stream.summary().and_then(arrived),
        );
        let (Some(begun), Some(first), Some(last)) = times else {
            let why = "the `slow` run has no results or no summary";
            return sheet.not_verified(&STREAMS, why);
        };
        if results.len() < 2 {
            return sheet.not_applicable(&STREAMS, "the `slow` run has only one result");
        }
        if last <= AT_ONCE {
            let why = "the `slow` run takes less than half a second";
            return sheet.not_applicable(&STREAMS, why);
        }
        let told = format!(
            "the first result arrives after {} ms, the summary after {} ms",
            first.as_millis(),
            last.as_millis()
        );
        let worked = last.saturating_sub(begun);
        match worked > AT_ONCE {
            true if 2 * first.saturating_sub(begun) < worked => {
                return sheet.pass(&STREAMS, "the first result arrives long before the summary");
            }
            // Everything arrived at once: the output was held back, or the startup was slow.
            false if begun.saturating_sub(start(session, command).await) <= AT_ONCE => {
                let why = "apart from its startup, the `slow` run takes less than half a second";
                return sheet.not_applicable(&STREAMS, why);
            }
            _ => {
                let is_last = wrong.is_some() && !run.is_starved();
                wrong = Some((told, run));
                if is_last {
                    break;
                }
            }
        }
    }
    if let Some((message, run)) = wrong {
        sheet.broken(&STREAMS, message, &run);
    }
}

/// Time until the first line of the `ok` run.
async fn start(session: &Session, command: &Command) -> Duration {
    let (words, how) = plain(session, command);
    let run = session
        .run(&command.name, "startup time", &words, how)
        .await;
    run.arrived(1).unwrap_or_default()
}
