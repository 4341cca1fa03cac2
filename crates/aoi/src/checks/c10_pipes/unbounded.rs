//! An unbounded stream, watched for a while.

use std::sync::Arc;
use std::time::Duration;

use super::signals::{has_summary, is_late};
use super::{PipeProbe, TRIES};
use crate::capture::Capture;
use crate::model::CheckId;
use crate::rules::{Level, Rule, Topic};
use crate::run::ReadMode;
use crate::session::RunOptions;
use crate::stream::{EventLine, EventStream};

/// How long an unbounded stream is watched.
pub const WATCHED: Duration = Duration::from_secs(2);

pub(super) static SILENT: Rule = Rule {
    id: "AOI-10.unbounded-silent",
    check: CheckId::Number(10),
    level: Level::Should,
    section: "§4.2",
    requirement: "An unbounded stream prints something within two seconds",
    why: "A caller cannot tell a stream that waits from one that hangs.",
    hint: "Write aoi:meta at once, and aoi:heartbeat if nothing happens.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-16.3-11"],
};

pub(super) static ENDS: Rule = Rule {
    id: "AOI-10.unbounded-ends",
    check: CheckId::Number(10),
    level: Level::Open,
    section: "§4.2",
    requirement: "A command that is declared unbounded runs until it is stopped",
    why: "A caller does not wait for the summary of an unbounded stream, and would miss it.",
    hint: "Declare the command bounded, or let it run until it is stopped.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-4.2-04", "AOI-16.3-11"],
};

/// Reads an unbounded stream for a while, then cancels it.
pub(super) async fn watch(probe: &PipeProbe<'_>) -> Option<Arc<Capture>> {
    if !probe.command.unbounded {
        return None;
    }
    let reporter = probe.session.reporter(&probe.command.name);
    let how = RunOptions {
        reader: ReadMode::Watch {
            time: WATCHED,
            number: libc::SIGINT,
        },
        limit: Some(probe.session.options.limit + WATCHED),
        ..probe.how.clone()
    };
    let name = "watched for two seconds";
    // A signal that arrives before the tool is ready may kill it without a summary.
    let is_suspicious = |run: &Capture| is_late(run) || !has_summary(run);
    let mut run = probe
        .start_with_retries(name, how.clone(), is_suspicious)
        .await;
    for _ in 1..TRIES {
        if !run.action_done || lines_before_signal(&run) > 0 {
            break;
        }
        run = probe.start(name, how.clone()).await;
    }
    if !run.action_done {
        let text = format!(
            "the command exited within two seconds: {}",
            run.end.describe()
        );
        reporter.violation(&ENDS, text, &run);
        reporter.not_verified(&SILENT, "the command did not run for two seconds");
        return None;
    }
    reporter.pass(&ENDS, "the command ran until it was stopped");
    let line_count = lines_before_signal(&run);
    let violation =
        (line_count == 0).then(|| "no output within two seconds, not even aoi:meta".to_owned());
    reporter.decide(
        &SILENT,
        &format!("{line_count} lines in two seconds"),
        violation,
        &run,
    );
    // A signal before the first line may have arrived before the tool installed its handler.
    (line_count > 0).then_some(run)
}

/// Number of lines that the signal did not cause.
fn lines_before_signal(run: &Capture) -> usize {
    let stream = EventStream::parse(&run.stdout);
    let is_end = |line: &&EventLine| line.kind() == Some("aoi:summary");
    stream.lines.iter().filter(|line| !is_end(line)).count()
}
