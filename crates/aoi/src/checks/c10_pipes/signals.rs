//! SIGINT and SIGTERM, sent to the process and to its group.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::signal_verdicts::{
    EXIT, HANGS, IGNORED, LAST, OK_TRUE, REASON, SUMMARY, SignalVerdicts, TORN, TRACE, ZERO,
};
use super::unbounded::{ENDS, SILENT, watch};
use super::{PipeProbe, TRIES, waiting};
use crate::capture::{Capture, ExitKind};
use crate::rules::Rule;
use crate::run::{ReadMode, StdoutTarget, line_feeds};
use crate::session::{Reporter, RunOptions};
use crate::stdio::small_pipe;
use crate::stream::EventStream;

const UNBOUNDED: &[&Rule] = &[&SILENT, &ENDS];

pub(super) const SIGNAL: &[&Rule] = &[
    &IGNORED, &HANGS, &TRACE, &ZERO, &EXIT, &OK_TRUE, &TORN, &LAST, &SUMMARY, &REASON,
];

/// Maximum time from the signal to the exit.
const MAX_EXIT_DELAY: Duration = Duration::from_secs(5);

const SIGNALS: [(i32, &str, bool); 4] = [
    (libc::SIGINT, "SIGINT", false),
    (libc::SIGTERM, "SIGTERM", false),
    (libc::SIGINT, "SIGINT to the group", true),
    (libc::SIGTERM, "SIGTERM to the group", true),
];

/// How to keep the tool from exiting before the signal arrives.
#[derive(Clone, Debug)]
struct Setup {
    words: Vec<String>,
    /// Pipes to try, one after another.
    outputs: Vec<StdoutTarget>,
}

pub async fn check(probe: &PipeProbe<'_>) {
    let reporter = probe.session.reporter(&probe.command.name);
    if !probe.command.unbounded {
        for rule in UNBOUNDED.iter().copied() {
            reporter.not_applicable(rule, "the command is not unbounded");
        }
    }
    let Some(setup) = setup(probe) else {
        let waiting = waiting::runs(probe).await;
        if !waiting.is_empty() {
            return report(reporter, SignalVerdicts::default(), &waiting);
        }
        for rule in SIGNAL.iter().copied() {
            reporter.not_verified(
                rule,
                "the command exits too soon to receive a signal; add a `slow` run to the probe \
                 file",
            );
        }
        return;
    };
    let runs = join_all(SIGNALS.map(|signal| run_with_signal(probe, &setup, signal)));
    let (runs, watched, waiting) = tokio::join!(runs, watch(probe), waiting::runs(probe));
    let mut verdicts = SignalVerdicts::default();
    for (run, (number, name, _)) in runs.iter().zip(SIGNALS) {
        match run {
            Some(run) => verdicts.check_run(run, number),
            None => verdicts.unverify_all(&format!(
                "{name} never arrived while the command was running; add a `slow` run to the \
                 probe file"
            )),
        }
    }
    if let Some(run) = &watched {
        verdicts.check_run(run, libc::SIGINT);
    }
    report(reporter, verdicts, &waiting);
}

fn report(reporter: Reporter, mut verdicts: SignalVerdicts, waiting: &[(Arc<Capture>, i32)]) {
    for (run, number) in waiting {
        verdicts.check_run(run, *number);
    }
    verdicts.report(reporter);
}

fn setup(probe: &PipeProbe) -> Option<Setup> {
    let (words, outputs) = match (&probe.command.slow, &probe.run) {
        (Some(slow), _) => {
            let words = probe.session.fill_shared(probe.command, slow);
            (words, vec![StdoutTarget::Pipe; TRIES])
        }
        (None, None) => (probe.words.clone(), vec![StdoutTarget::Pipe; TRIES]),
        (None, Some(run)) => (probe.words.clone(), backpressure(&run.stdout)),
    };
    (!outputs.is_empty()).then_some(Setup { words, outputs })
}

/// Pipes that are full before the tool has written everything, but not before its first line.
fn backpressure(stdout: &[u8]) -> Vec<StdoutTarget> {
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
        return vec![StdoutTarget::Small; TRIES];
    }
    // Some tools wait until a pipe has a free page, others write into the rest of one.
    let room = u16::try_from(first + second / 2).unwrap_or(u16::MAX);
    vec![StdoutTarget::HalfFull, StdoutTarget::NearlyFull(room)]
}

/// A run that received the signal before it was done. `None` if there is none. A run that seems to
/// ignore the signal is repeated, because a busy machine may be slow.
async fn run_with_signal(
    probe: &PipeProbe<'_>,
    setup: &Setup,
    (number, name, group): (i32, &str, bool),
) -> Option<Arc<Capture>> {
    let mut ignoring_run = None;
    for output in &setup.outputs {
        let how = RunOptions {
            output: *output,
            reader: ReadMode::Signal { number, group },
            ..probe.how.clone()
        };
        let session = probe.session;
        let whole = probe.run.as_deref();
        // Signs of a tool that had no time to handle the signal, or had already exited.
        let is_suspicious = |run: &Capture| {
            is_late(run) || looks_untouched(run, whole) || !has_summary(run) || !run.action_done
        };
        let run = session
            .run_with_retries(&probe.command.name, name, &setup.words, how, is_suspicious)
            .await;
        if !was_interrupted(&run, whole) {
            // A tool that prints nothing within its time limit will not do so in the next try.
            match run.end {
                ExitKind::TimedOut => break,
                _ => continue,
            }
        }
        let slow = run.end != ExitKind::TimedOut && is_late(&run);
        if !slow && !looks_untouched(&run, whole) {
            return Some(run);
        }
        ignoring_run = Some(run);
    }
    ignoring_run
}

/// Whether the signal certainly arrived before the work was done. A run that looks untouched may
/// have exited on its own at that moment, and one that prints little may have had nothing else to
/// do. A tool without a summary looks untouched if its run equals `whole`, the complete run.
fn was_interrupted(run: &Capture, whole: Option<&Capture>) -> bool {
    let prints_little = matches!(
        run.output,
        StdoutTarget::HalfFull | StdoutTarget::NearlyFull(_)
    );
    run.action_done && (!looks_untouched(run, whole) || (run.alive_after_action && !prints_little))
}

fn looks_untouched(run: &Capture, whole: Option<&Capture>) -> bool {
    let as_ever = whole.is_some_and(|whole| whole.end == run.end && whole.stdout == run.stdout);
    as_ever || looks_done(run) || killed_after_output(run, whole)
}

/// Whether the signal killed the process after it had printed everything. Interpreters drop their
/// signal handlers on shutdown, so nothing was interrupted.
fn killed_after_output(run: &Capture, whole: Option<&Capture>) -> bool {
    let line_count = |run: &Capture| line_feeds(&run.stdout);
    let stream = EventStream::parse(&run.stdout);
    matches!(run.end, ExitKind::Signal(_))
        && whole.is_some_and(|whole| whole.end.is_success() && line_count(whole) == line_count(run))
        && stream.ok() == Some(true)
        && !is_interrupted(&stream)
}

/// Whether the tool took too long to exit after the signal. The time that it waited for a busy
/// machine does not count.
pub(super) fn is_late(run: &Capture) -> bool {
    let own = run.exit_delay.map(|time| time.saturating_sub(run.delay));
    run.end == ExitKind::TimedOut || own.is_some_and(|time| time > MAX_EXIT_DELAY)
}

pub(super) fn has_summary(run: &Capture) -> bool {
    EventStream::parse(&run.stdout)
        .of_type("aoi:summary")
        .next()
        .is_some()
}

pub(super) fn looks_done(run: &Capture) -> bool {
    let stream = EventStream::parse(&run.stdout);
    run.end.is_success() && stream.ok() == Some(true) && !is_interrupted(&stream)
}

fn is_interrupted(stream: &EventStream) -> bool {
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
        let line_count = "{\"type\":\"aoi:summary\",\"ok\":false,\"reason\":\"interrupted\"}\n";
        let run = |end, lines: &[&str]| Capture {
            stdout: lines.concat().into_bytes(),
            action_done: true,
            ..crate::session::tests::run(0, end)
        };
        let whole = run(ExitKind::Code(0), &[hit, hit, good]);
        let killed = ExitKind::Signal(libc::SIGINT);
        for (end, lines, met) in [
            (killed, &[hit, hit, good][..], false),
            (killed, &[hit, good], true),
            (killed, &[hit, hit, line_count], true),
            (killed, &[hit, hit], true),
            (ExitKind::Code(130), &[hit, hit, good], true),
            (ExitKind::Code(0), &[hit, hit, good], false),
        ] {
            let run = run(end, lines);
            assert_eq!(
                was_interrupted(&run, Some(&whole)),
                met,
                "{end:?} {lines:?}"
            );
        }
        assert!(was_interrupted(&run(killed, &[hit, hit, good]), None));
    }

    #[test]
    fn time_on_a_busy_machine_does_not_count_as_late() {
        for (exit_delay, delay, late) in [(4, 0, false), (6, 0, true), (9, 5, false), (9, 3, true)]
        {
            let run = Capture {
                exit_delay: Some(Duration::from_secs(exit_delay)),
                delay: Duration::from_secs(delay),
                ..crate::session::tests::run(0, ExitKind::Code(130))
            };
            assert_eq!(is_late(&run), late, "{exit_delay} s, {delay} s delayed");
        }
    }

    #[test]
    fn the_pipe_depends_on_the_size_of_the_output() {
        let lines =
            |count: usize| "x".repeat(99) + &("\n".to_owned() + &"x".repeat(99)).repeat(count);
        assert_eq!(backpressure(b"one line\n"), []);
        assert_eq!(backpressure(b""), []);
        assert_eq!(
            backpressure(lines(200).as_bytes()),
            [StdoutTarget::Small; TRIES]
        );
        let small = [StdoutTarget::HalfFull, StdoutTarget::NearlyFull(10)];
        assert_eq!(backpressure(b"1234567\n123\n"), small);
        let long = format!("{}\n{{}}\n", "x".repeat(small_pipe()));
        assert_eq!(backpressure(long.as_bytes()), []);
    }
}
