//! SIGINT and SIGTERM, sent to the process and to its group.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::marks::{
    EXIT, HANGS, IGNORED, LAST, Marks, OK_TRUE, REASON, SUMMARY, TORN, TRACE, ZERO,
};
use super::unbounded::{ENDS, SILENT, watch};
use super::{Plain, TRIES};
use crate::capture::{Capture, End};
use crate::rules::Rule;
use crate::run::{Output, Reader, line_feeds};
use crate::session::How;
use crate::stream::Stream;
use crate::streams::small_pipe;

const UNBOUNDED: &[&Rule] = &[&SILENT, &ENDS];

const SIGNAL: &[&Rule] = &[
    &IGNORED, &HANGS, &TRACE, &ZERO, &EXIT, &OK_TRUE, &TORN, &LAST, &SUMMARY, &REASON,
];

/// Maximum time from the signal to the exit.
const PROMPT: Duration = Duration::from_secs(5);

const SIGNALS: [(i32, &str, bool); 4] = [
    (libc::SIGINT, "SIGINT", false),
    (libc::SIGTERM, "SIGTERM", false),
    (libc::SIGINT, "SIGINT to the group", true),
    (libc::SIGTERM, "SIGTERM to the group", true),
];

/// How to keep the tool from exiting before the signal arrives.
#[derive(Clone, Debug)]
struct Way {
    words: Vec<String>,
    /// Pipes to try, one after another.
    outputs: Vec<Output>,
}

pub async fn check(plain: &Plain<'_>) {
    let judge = plain.session.judge(&plain.command.name);
    if !plain.command.unbounded {
        for rule in UNBOUNDED.iter().copied() {
            judge.not_applicable(rule, "the command is not unbounded");
        }
    }
    let Some(way) = way(plain) else {
        for rule in SIGNAL.iter().copied() {
            judge.not_verified(
                rule,
                "the command exits too soon to receive a signal; add a `slow` run to the probe \
                 file",
            );
        }
        return;
    };
    let runs = join_all(SIGNALS.map(|signal| reach(plain, &way, signal)));
    let (runs, watched) = tokio::join!(runs, watch(plain));
    let mut marks = Marks::default();
    for (run, (number, name, _)) in runs.iter().zip(SIGNALS) {
        match run {
            Some(run) => marks.look(run, number),
            None => marks.missed(&format!(
                "{name} never arrived while the command was running; add a `slow` run to the \
                 probe file"
            )),
        }
    }
    if let Some(run) = &watched {
        marks.look(run, libc::SIGINT);
    }
    marks.settle(plain);
}

fn way(plain: &Plain) -> Option<Way> {
    let (words, outputs) = match (&plain.command.slow, &plain.run) {
        (Some(slow), _) => {
            let words = plain.session.fill(slow, &[], plain.session.common());
            (words, vec![Output::Pipe; TRIES])
        }
        (None, None) => (plain.words.clone(), vec![Output::Pipe; TRIES]),
        (None, Some(run)) => (plain.words.clone(), backpressure(&run.stdout)),
    };
    (!outputs.is_empty()).then_some(Way { words, outputs })
}

/// Pipes that are full before the tool has written everything, but not before its first line.
fn backpressure(stdout: &[u8]) -> Vec<Output> {
    let mut lines = stdout
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::len);
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else {
        return Vec::new();
    };
    if first > small_pipe() / 2 {
        return Vec::new();
    }
    if stdout.len() > 2 * small_pipe() {
        return vec![Output::Small; TRIES];
    }
    // Some tools wait until a pipe has a free page, others write into the rest of one.
    let room = u16::try_from(first + second / 2).unwrap_or(u16::MAX);
    vec![Output::Slot, Output::Tight(room)]
}

/// A run that received the signal before it was done. `None` if there is none. A run that seems to
/// ignore the signal is repeated, because a busy machine may be slow.
async fn reach(
    plain: &Plain<'_>,
    way: &Way,
    (number, name, group): (i32, &str, bool),
) -> Option<Arc<Capture>> {
    let mut deaf = None;
    for output in &way.outputs {
        let how = How {
            output: *output,
            reader: Reader::Signal { number, group },
            ..plain.how.clone()
        };
        let session = plain.session;
        let whole = plain.run.as_deref();
        // Signs of a tool that had no time to handle the signal, or had already exited.
        let odd = |run: &Capture| {
            is_late(run) || looks_untouched(run, whole) || !has_summary(run) || !run.acted
        };
        let run = session
            .run_fairly(&plain.command.name, name, &way.words, how, odd)
            .await;
        if !was_met(&run, whole) {
            // A tool that prints nothing within its time limit will not do so in the next try.
            match run.end {
                End::TimedOut => break,
                _ => continue,
            }
        }
        let slow = run.end != End::TimedOut && is_late(&run);
        if !slow && !looks_untouched(&run, whole) {
            return Some(run);
        }
        deaf = Some(run);
    }
    deaf
}

/// Whether the signal certainly arrived before the work was done. A run that looks untouched may
/// have exited on its own at that moment, and one that prints little may have had nothing else to
/// do. A tool without a summary looks untouched if its run equals `whole`, the complete run.
fn was_met(run: &Capture, whole: Option<&Capture>) -> bool {
    let prints_little = matches!(run.output, Output::Slot | Output::Tight(_));
    run.acted && (!looks_untouched(run, whole) || (run.outlived && !prints_little))
}

fn looks_untouched(run: &Capture, whole: Option<&Capture>) -> bool {
    let as_ever = whole.is_some_and(|whole| whole.end == run.end && whole.stdout == run.stdout);
    as_ever || looks_done(run) || died_behind_the_end(run, whole)
}

/// Whether the signal killed the process after it had printed everything. Interpreters drop their
/// signal handlers on shutdown, so nothing was interrupted.
fn died_behind_the_end(run: &Capture, whole: Option<&Capture>) -> bool {
    let said = |run: &Capture| line_feeds(&run.stdout);
    let stream = Stream::read(&run.stdout);
    matches!(run.end, End::Signal(_))
        && whole.is_some_and(|whole| whole.end.is_success() && said(whole) == said(run))
        && stream.ok() == Some(true)
        && !is_interrupted(&stream)
}

pub(super) fn is_late(run: &Capture) -> bool {
    run.end == End::TimedOut || run.after_act.is_some_and(|time| time > PROMPT)
}

pub(super) fn has_summary(run: &Capture) -> bool {
    Stream::read(&run.stdout).of("aoi:summary").next().is_some()
}

pub(super) fn looks_done(run: &Capture) -> bool {
    let stream = Stream::read(&run.stdout);
    run.end.is_success() && stream.ok() == Some(true) && !is_interrupted(&stream)
}

fn is_interrupted(stream: &Stream) -> bool {
    let reason = stream.summary().and_then(|line| line.get("reason"));
    reason.and_then(Value::as_str) == Some("interrupted")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that is killed after its last line was not interrupted. One that is killed before
    /// it was, and must not have ok: true.
    #[test]
    fn a_kill_after_the_last_line_is_not_an_interruption() {
        let hit = "{\"type\":\"hit\"}\n";
        let good = "{\"type\":\"aoi:summary\",\"ok\":true}\n";
        let said = "{\"type\":\"aoi:summary\",\"ok\":false,\"reason\":\"interrupted\"}\n";
        let run = |end, lines: &[&str]| Capture {
            stdout: lines.concat().into_bytes(),
            acted: true,
            ..crate::session::tests::run(0, end)
        };
        let whole = run(End::Code(0), &[hit, hit, good]);
        let killed = End::Signal(libc::SIGINT);
        for (end, lines, met) in [
            (killed, &[hit, hit, good][..], false),
            (killed, &[hit, good], true),
            (killed, &[hit, hit, said], true),
            (killed, &[hit, hit], true),
            (End::Code(130), &[hit, hit, good], true),
            (End::Code(0), &[hit, hit, good], false),
        ] {
            let run = run(end, lines);
            assert_eq!(was_met(&run, Some(&whole)), met, "{end:?} {lines:?}");
        }
        assert!(was_met(&run(killed, &[hit, hit, good]), None));
    }

    #[test]
    fn the_pipe_depends_on_the_size_of_the_output() {
        let lines =
            |count: usize| "x".repeat(99) + &("\n".to_owned() + &"x".repeat(99)).repeat(count);
        assert_eq!(backpressure(b"one line\n"), []);
        assert_eq!(backpressure(b""), []);
        assert_eq!(backpressure(lines(200).as_bytes()), [Output::Small; TRIES]);
        let small = [Output::Slot, Output::Tight(10)];
        assert_eq!(backpressure(b"1234567\n123\n"), small);
        let long = format!("{}\n{{}}\n", "x".repeat(small_pipe()));
        assert_eq!(backpressure(long.as_bytes()), []);
    }
}
