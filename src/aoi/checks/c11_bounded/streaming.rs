//! Whether results can be used as they come.

use super::rules::STREAMS;
use crate::aoi::probe::Command;
use crate::aoi::session::{How, Session};
use crate::aoi::sheet::Sheet;
use crate::aoi::stream::{Line, Stream};

/// Results come while the command still works, seen on a slow run.
pub async fn streams(session: &Session, command: &Command, sheet: &mut Sheet<'_>) {
    let Some(slow) = &command.slow else {
        return;
    };
    let words = session.fill(slow, &[], session.common());
    let mut wrong = None;
    // A machine that was busy at the wrong moment gets a second chance.
    for _ in 0..2 {
        let run = session
            .run(&command.name, "slow", &words, How::default())
            .await;
        let stream = Stream::read(&run.stdout);
        let is_result = |line: &&Line| match line.kind() {
            Some("aoi:check") => true,
            Some(kind) => !kind.starts_with("aoi:"),
            None => false,
        };
        let results: Vec<&Line> = stream.lines.iter().filter(is_result).collect();
        let arrived = |line: &Line| run.arrived(line.offset + 1);
        let times = (
            // To start up is no result's fault.
            stream.lines.first().and_then(arrived),
            results.first().and_then(|line| arrived(line)),
            stream.summary().and_then(arrived),
        );
        let (Some(begun), Some(first), Some(last)) = times else {
            let why = "the slow run has no results, or no summary";
            return sheet.not_verified(&STREAMS, why);
        };
        if results.len() < 2 {
            return sheet.not_applicable(&STREAMS, "the slow run has one result");
        }
        if last.as_millis() <= 500 {
            let why = "the slow run takes less than half a second";
            return sheet.not_applicable(&STREAMS, why);
        }
        if 2 * first.saturating_sub(begun) < last.saturating_sub(begun) {
            return sheet.pass(&STREAMS, "the first result comes long before the summary");
        }
        let told = format!(
            "the first result comes after {} ms, the summary after {} ms",
            first.as_millis(),
            last.as_millis()
        );
        wrong = Some((told, run));
    }
    if let Some((message, run)) = wrong {
        sheet.broken(&STREAMS, message, &run);
    }
}
