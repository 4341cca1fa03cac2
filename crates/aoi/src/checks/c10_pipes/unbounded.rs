//! A stream without an end, watched for a while.

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
    demands: "An unbounded stream says something within two seconds",
    why: "A caller cannot tell a stream that waits from one that hangs.",
    hint: "Write aoi:meta at once, and aoi:heartbeat where nothing happens.",
    topic: Topic::Signals,
    register: &["AOI-16.3-11"],
};

pub(super) static ENDS: Rule = Rule {
    id: "AOI-10.unbounded-ends",
    check: Check::Number(10),
    level: Level::Open,
    section: "§4.2",
    demands: "A command that is called unbounded goes on until it is stopped",
    why: "A caller does not wait for a summary of a stream without end, and would miss it.",
    hint: "Call the command bounded, or let it go on.",
    topic: Topic::Signals,
    register: &["AOI-4.2-04", "AOI-16.3-11"],
};

/// An unbounded stream, read for a while and then cancelled.
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
    // A signal that meets it before it was ready may end it without a word.
    let odd = |run: &Capture| is_late(run) || !has_summary(run);
    let mut run = plain.start_fairly(name, how.clone(), odd).await;
    for _ in 1..TRIES {
        if !run.acted || lines_said(&run) > 0 {
            break;
        }
        run = plain.start(name, how.clone()).await;
    }
    if !run.acted {
        let text = format!("it ended by itself within two seconds: {}", run.end.told());
        judge.broken(&ENDS, text, &run);
        judge.not_verified(&SILENT, "it did not go on for two seconds");
        return None;
    }
    judge.pass(&ENDS, "it went on until it was stopped");
    let said = lines_said(&run);
    let wrong = (said == 0).then(|| "nothing came in two seconds, not even aoi:meta".to_owned());
    judge.held(
        &SILENT,
        &format!("{said} lines in two seconds"),
        wrong,
        &run,
    );
    // A signal that came before the first line may have come before anybody was there to hear it.
    (said > 0).then_some(run)
}

/// Lines that the signal has not brought about.
fn lines_said(run: &Capture) -> usize {
    let stream = Stream::read(&run.stdout);
    let is_end = |line: &&Line| line.kind() == Some("aoi:summary");
    stream.lines.iter().filter(|line| !is_end(line)).count()
}
