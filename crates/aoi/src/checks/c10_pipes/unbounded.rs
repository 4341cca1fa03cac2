//! An unbounded stream, watched for a while.

use std::sync::Arc;
use std::time::Duration;

use super::signals::{has_summary, is_late};
use super::{Plain, TRIES};
use crate::capture::Capture;
use crate::model::Check;
use crate::rules::{Level, Rule, Topic};
use crate::run::Reader;
use crate::session::How;
use crate::stream::{Line, Stream};

/// How long an unbounded stream is watched.
const WATCHED: Duration = Duration::from_secs(2);

pub(super) static SILENT: Rule = Rule {
    id: "AOI-10.unbounded-silent",
    check: Check::Number(10),
    level: Level::Should,
    section: "§4.2",
    demands: "An unbounded stream prints something within two seconds",
    why: "A caller cannot tell a stream that waits from one that hangs.",
    hint: "Write aoi:meta at once, and aoi:heartbeat if nothing happens.",
    topic: Topic::Signals,
    register: &["AOI-16.3-11"],
};

pub(super) static ENDS: Rule = Rule {
    id: "AOI-10.unbounded-ends",
    check: Check::Number(10),
    level: Level::Open,
    section: "§4.2",
    demands: "A command that is declared unbounded runs until it is stopped",
    why: "A caller does not wait for the summary of an unbounded stream, and would miss it.",
    hint: "Declare the command bounded, or let it run until it is stopped.",
    topic: Topic::Signals,
    register: &["AOI-4.2-04", "AOI-16.3-11"],
};

/// Reads an unbounded stream for a while, then cancels it.
pub(super) async fn watch(plain: &Plain<'_>) -> Option<Arc<Capture>> {
    if !plain.command.unbounded {
        return None;
    }
    let judge = plain.session.judge(&plain.command.name);
    let how = How {
        reader: Reader::Watch {
            time: WATCHED,
            number: libc::SIGINT,
        },
        limit: Some(plain.session.options.limit + WATCHED),
        ..plain.how.clone()
    };
    let name = "watched for two seconds";
    // A signal that arrives before the tool is ready may kill it without a summary.
    let odd = |run: &Capture| is_late(run) || !has_summary(run);
    let mut run = plain.start_fairly(name, how.clone(), odd).await;
    for _ in 1..TRIES {
        if !run.acted || lines_said(&run) > 0 {
            break;
        }
        run = plain.start(name, how.clone()).await;
    }
    if !run.acted {
        let text = format!("the command exited within two seconds: {}", run.end.told());
        judge.broken(&ENDS, text, &run);
        judge.not_verified(&SILENT, "the command did not run for two seconds");
        return None;
    }
    judge.pass(&ENDS, "the command ran until it was stopped");
    let said = lines_said(&run);
    let wrong = (said == 0).then(|| "no output within two seconds, not even aoi:meta".to_owned());
    judge.held(
        &SILENT,
        &format!("{said} lines in two seconds"),
        wrong,
        &run,
    );
    // A signal before the first line may have arrived before the tool installed its handler.
    (said > 0).then_some(run)
}

/// Number of lines that the signal did not cause.
fn lines_said(run: &Capture) -> usize {
    let stream = Stream::read(&run.stdout);
    let is_end = |line: &&Line| line.kind() == Some("aoi:summary");
    stream.lines.iter().filter(|line| !is_end(line)).count()
}
