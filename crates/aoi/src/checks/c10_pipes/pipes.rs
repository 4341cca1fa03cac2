//! Readers that close the pipe.

use std::sync::Arc;
use std::time::Duration;

use super::silence::{Outlived, outlived};
use super::{PipeProbe, TRIES};
use crate::capture::{Capture, ExitKind};
use crate::checks::tally::RuleTally;
use crate::checks::{is_read_only, unknown_flag};
use crate::model::CheckId;
use crate::rules::{Level, Rule, Topic};
use crate::run::{ReadMode, StdoutTarget};
use crate::session::{RunOptions, with_options};
use crate::stack_trace;

/// Maximum time from the close to the exit.
pub(super) const MAX_EXIT_DELAY: Duration = Duration::from_secs(2);

pub(super) static PIPE_TRACE: Rule = Rule {
    id: "AOI-10.pipe-trace",
    check: CheckId::Number(10),
    level: Level::Must,
    section: "§7, §18.2",
    requirement: "A closed stdout pipe does not cause a stack trace",
    why: "`tool | head -1` is common, and a stack trace looks like a crash.",
    hint: "Treat a write that fails with EPIPE as the end of the run, and exit silently.",
    topic: Topic::Pipe,
    requirement_ids: &["AOI-7-01", "AOI-18.2-10"],
};

pub(super) static PIPE_HANGS: Rule = Rule {
    id: "AOI-10.pipe-hangs",
    check: CheckId::Number(10),
    level: Level::Must,
    section: "§7",
    requirement: "The tool exits within two seconds after its reader has closed stdout. An \
                  unbounded command may take until its next write",
    why: "The output no longer has a reader, so further work wastes resources.",
    hint: "Stop at the first write that fails.",
    topic: Topic::Pipe,
    requirement_ids: &["AOI-7-01"],
};

pub(super) static PIPE_EXIT: Rule = Rule {
    id: "AOI-10.pipe-exit",
    check: CheckId::Number(10),
    level: Level::Should,
    section: "§6",
    requirement: "After its reader has closed stdout, the tool exits 0 or 141, or is killed by SIGPIPE",
    why: "With `pipefail`, a shell uses the exit code to tell a closed pipe from a failure.",
    hint: "Restore the default action of SIGPIPE, or exit 141.",
    topic: Topic::Pipe,
    requirement_ids: &["AOI-6-14", "AOI-7-01"],
};

pub(super) static PIPE_MESSAGE: Rule = Rule {
    id: "AOI-10.pipe-message",
    check: CheckId::Number(10),
    level: Level::Should,
    section: "§7",
    requirement: "A closed stdout pipe is not reported on stderr",
    why: "It is the normal end of a pipeline, and there is nothing to fix.",
    hint: "Do not print the error of a write that fails with EPIPE.",
    topic: Topic::Pipe,
    requirement_ids: &["AOI-7-01"],
};

pub async fn stdout(probe: &PipeProbe<'_>) {
    let gone = RunOptions {
        output: StdoutTarget::Closed,
        ..probe.how.clone()
    };
    let (before, run_mutation) = tokio::join!(
        probe.start_with_retries("stdout closed before the start", gone, is_late),
        one_line(probe),
    );
    let [mut traces, mut hangs, mut exit, mut message] =
        std::array::from_fn::<RuleTally, 4, _>(|_| RuleTally::default());
    for run in [Some(before), run_mutation].into_iter().flatten() {
        let at = |what: String| format!("`{}`: {what}", run.probe);
        let found = stack_trace::find(&run.stderr);
        let violation = found.as_ref().map(|trace| {
            at(format!(
                "stack trace ({}): {:?}",
                trace.language, trace.line
            ))
        });
        traces.record(&run, violation, "no stack trace");
        match outlived(probe, &run).await {
            Outlived::No => hangs.pass("the tool exits after its reader closed stdout"),
            Outlived::Yes(late) => {
                let how = describe_exit(&late);
                hangs.violation(&late, || {
                    at(format!("{how} after its reader closed stdout"))
                });
                continue;
            }
            Outlived::Unknown(why) => hangs.unverify(why),
        }
        if run.end == ExitKind::TimedOut {
            continue;
        }
        let violation = (!is_quiet(run.end)).then(|| {
            at(format!(
                "{} after its reader closed stdout",
                run.end.describe()
            ))
        });
        exit.record(&run, violation, &run.end.describe());
        let line = stack_trace::broken_pipe(&run.stderr).filter(|_| found.is_none());
        message.record(
            &run,
            line.map(|line| at(format!("stderr has the message {line:?}"))),
            "stderr does not mention it",
        );
    }
    let reporter = probe.session.reporter(&probe.command.name);
    for (tally, rule) in [
        (traces, &PIPE_TRACE),
        (hangs, &PIPE_HANGS),
        (exit, &PIPE_EXIT),
        (message, &PIPE_MESSAGE),
    ] {
        tally.report(reporter, rule, |reporter, rule| {
            reporter.not_verified(
                rule,
                "the tool does not exit after its reader closed stdout",
            );
        });
    }
}

pub(super) fn is_late(run: &Capture) -> bool {
    run.end == ExitKind::TimedOut || run.exit_delay.is_some_and(|time| time > MAX_EXIT_DELAY)
}

fn describe_exit(run: &Capture) -> String {
    match run.exit_delay {
        Some(time) => format!("the tool ran for another {} ms", time.as_millis()),
        None => run.end.describe(),
    }
}

/// Whether this is a normal exit of a tool whose reader is gone.
fn is_quiet(end: ExitKind) -> bool {
    matches!(
        end,
        ExitKind::Code(0 | 141) | ExitKind::Signal(libc::SIGPIPE)
    )
}

/// The reader closes the pipe after one line. `None` if the tool had already written everything.
async fn one_line(probe: &PipeProbe<'_>) -> Option<Arc<Capture>> {
    let mut slowest = None;
    for _ in 0..TRIES {
        let how = RunOptions {
            output: StdoutTarget::Small,
            reader: ReadMode::OneLine,
            ..probe.how.clone()
        };
        let name = "stdout closed after a line";
        let run = probe.start_with_retries(name, how, is_late).await;
        if !run.action_done {
            continue;
        }
        // A busy machine may be slow once.
        if run.exit_delay.is_none_or(|time| time <= MAX_EXIT_DELAY) || run.end == ExitKind::TimedOut
        {
            return Some(run);
        }
        slowest = Some(run);
    }
    slowest
}

pub(super) static STDERR: Rule = Rule {
    id: "AOI-10.stderr-closed",
    check: CheckId::Number(10),
    level: Level::Should,
    section: "§7",
    requirement: "A closed stderr does not change the exit code of the tool",
    why: "Callers may discard stderr, and an unread message must not stop the work.",
    hint: "Ignore writes to stderr that fail.",
    topic: Topic::Pipe,
    requirement_ids: &["AOI-7-01"],
};

/// Compares runs with and without a reader of stderr.
pub async fn stderr(probe: &PipeProbe<'_>) {
    let reporter = probe.session.reporter(&probe.command.name);
    let Some(open) = &probe.run else {
        return reporter.not_applicable(&STDERR, "the command is unbounded");
    };
    let closed = RunOptions {
        stderr_closed: true,
        ..probe.how.clone()
    };
    let mut tally = RuleTally::default();
    if !open.stderr.is_empty() {
        let run = probe.start("stderr closed", closed.clone()).await;
        compare(&run, open, &mut tally);
    }
    if is_read_only(probe.session, probe.command) {
        let words = with_options(&probe.words, &[unknown_flag(probe.session)]);
        let name = &probe.command.name;
        let refused = probe.session.run(
            name,
            "rejected, with stderr open",
            &words,
            probe.how.clone(),
        );
        let refused = refused.await;
        if !refused.stderr.is_empty() {
            let without_reader =
                probe
                    .session
                    .run(name, "rejected, with stderr closed", &words, closed);
            compare(&without_reader.await, &refused, &mut tally);
        }
    }
    tally.report(reporter, &STDERR, |reporter, rule| {
        reporter.not_applicable(rule, "the command writes nothing to stderr");
    });
}

fn compare(closed: &Arc<Capture>, open: &Capture, tally: &mut RuleTally) {
    let fits = closed.end == open.end
        || matches!(
            closed.end,
            ExitKind::Code(141) | ExitKind::Signal(libc::SIGPIPE)
        );
    let violation = (!fits).then(|| {
        format!(
            "`{}`: {}; with an open stderr: {}",
            closed.probe,
            closed.end.describe(),
            open.end.describe()
        )
    });
    tally.record(closed, violation, &closed.end.describe());
}
