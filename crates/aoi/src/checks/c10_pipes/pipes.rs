//! Readers that close the pipe.

use std::sync::Arc;
use std::time::Duration;

use super::{Plain, TRIES};
use crate::capture::{Capture, End};
use crate::checks::tally::Tally;
use crate::checks::{is_read_only, unknown_flag};
use crate::model::Check;
use crate::rules::{Level, Rule, Topic};
use crate::run::{Output, Reader};
use crate::session::{How, with_options};
use crate::trace;

/// Maximum time from the close to the exit.
const PROMPT: Duration = Duration::from_secs(2);

pub(super) static PIPE_TRACE: Rule = Rule {
    id: "AOI-10.pipe-trace",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7, §18.2",
    demands: "A closed stdout pipe does not cause a stack trace",
    why: "`tool | head -1` is common, and a stack trace looks like a crash.",
    hint: "Treat a write that fails with EPIPE as the end of the run, and exit silently.",
    topic: Topic::Pipe,
    register: &["AOI-7-01", "AOI-18.2-10"],
};

pub(super) static PIPE_HANGS: Rule = Rule {
    id: "AOI-10.pipe-hangs",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "The tool exits within two seconds after its reader has closed stdout",
    why: "The output no longer has a reader, so further work wastes resources.",
    hint: "Stop at the first write that fails.",
    topic: Topic::Pipe,
    register: &["AOI-7-01"],
};

pub(super) static PIPE_EXIT: Rule = Rule {
    id: "AOI-10.pipe-exit",
    check: Check::Number(10),
    level: Level::Should,
    section: "§6",
    demands: "After its reader has closed stdout, the tool exits 0 or 141, or is killed by SIGPIPE",
    why: "With `pipefail`, a shell uses the exit code to tell a closed pipe from a failure.",
    hint: "Restore the default action of SIGPIPE, or exit 141.",
    topic: Topic::Pipe,
    register: &["AOI-6-14", "AOI-7-01"],
};

pub(super) static PIPE_MESSAGE: Rule = Rule {
    id: "AOI-10.pipe-message",
    check: Check::Number(10),
    level: Level::Should,
    section: "§7",
    demands: "A closed stdout pipe is not reported on stderr",
    why: "It is the normal end of a pipeline, and there is nothing to fix.",
    hint: "Do not print the error of a write that fails with EPIPE.",
    topic: Topic::Pipe,
    register: &["AOI-7-01"],
};

pub async fn stdout(plain: &Plain<'_>) {
    let gone = How {
        output: Output::Closed,
        ..plain.how.clone()
    };
    let (before, within) = tokio::join!(
        plain.start_fairly("stdout closed before the start", gone, is_late),
        one_line(plain),
    );
    let [mut traces, mut hangs, mut exit, mut message] =
        std::array::from_fn::<Tally, 4, _>(|_| Tally::default());
    for run in [Some(before), within].into_iter().flatten() {
        let at = |what: String| format!("`{}`: {what}", run.probe);
        let found = trace::find(&run.stderr);
        let wrong = found.as_ref().map(|trace| {
            at(format!(
                "stack trace ({}): {:?}",
                trace.language, trace.line
            ))
        });
        traces.see(&run, wrong, "no stack trace");
        let late = is_late(&run);
        let wrong = late.then(|| at(format!("{} after its reader closed stdout", told(&run))));
        hangs.see(&run, wrong, "the tool exits after its reader closed stdout");
        if late {
            continue;
        }
        let wrong = (!is_quiet(run.end))
            .then(|| at(format!("{} after its reader closed stdout", run.end.told())));
        exit.see(&run, wrong, &run.end.told());
        let line = trace::broken_pipe(&run.stderr).filter(|_| found.is_none());
        message.see(
            &run,
            line.map(|line| at(format!("stderr has the message {line:?}"))),
            "stderr does not mention it",
        );
    }
    let judge = plain.session.judge(&plain.command.name);
    for (tally, rule) in [
        (traces, &PIPE_TRACE),
        (hangs, &PIPE_HANGS),
        (exit, &PIPE_EXIT),
        (message, &PIPE_MESSAGE),
    ] {
        tally.settle(judge, rule, |judge, rule| {
            judge.not_verified(
                rule,
                "the tool does not exit after its reader closed stdout",
            );
        });
    }
}

fn is_late(run: &Capture) -> bool {
    run.end == End::TimedOut || run.after_act.is_some_and(|time| time > PROMPT)
}

fn told(run: &Capture) -> String {
    match run.after_act {
        Some(time) => format!("the tool ran for another {} ms", time.as_millis()),
        None => run.end.told(),
    }
}

/// Whether this is a normal exit of a tool whose reader is gone.
fn is_quiet(end: End) -> bool {
    matches!(end, End::Code(0 | 141) | End::Signal(libc::SIGPIPE))
}

/// The reader closes the pipe after one line. `None` if the tool had already written everything.
async fn one_line(plain: &Plain<'_>) -> Option<Arc<Capture>> {
    let mut slowest = None;
    for _ in 0..TRIES {
        let how = How {
            output: Output::Small,
            reader: Reader::OneLine,
            ..plain.how.clone()
        };
        let name = "stdout closed after a line";
        let run = plain.start_fairly(name, how, is_late).await;
        if !run.acted {
            continue;
        }
        // A busy machine may be slow once.
        if run.after_act.is_none_or(|time| time <= PROMPT) || run.end == End::TimedOut {
            return Some(run);
        }
        slowest = Some(run);
    }
    slowest
}

pub(super) static STDERR: Rule = Rule {
    id: "AOI-10.stderr-closed",
    check: Check::Number(10),
    level: Level::Should,
    section: "§7",
    demands: "A closed stderr does not change the exit code of the tool",
    why: "Callers may discard stderr, and an unread message must not stop the work.",
    hint: "Ignore writes to stderr that fail.",
    topic: Topic::Pipe,
    register: &["AOI-7-01"],
};

/// Compares runs with and without a reader of stderr.
pub async fn stderr(plain: &Plain<'_>) {
    let judge = plain.session.judge(&plain.command.name);
    let Some(open) = &plain.run else {
        return judge.not_applicable(&STDERR, "the command is unbounded");
    };
    let closed = How {
        stderr_closed: true,
        ..plain.how.clone()
    };
    let mut tally = Tally::default();
    if !open.stderr.is_empty() {
        let run = plain.start("stderr closed", closed.clone()).await;
        compare(&run, open, &mut tally);
    }
    if is_read_only(plain.session, plain.command) {
        let words = with_options(&plain.words, &[unknown_flag(plain.session)]);
        let name = &plain.command.name;
        let refused = plain.session.run(
            name,
            "rejected, with stderr open",
            &words,
            plain.how.clone(),
        );
        let refused = refused.await;
        if !refused.stderr.is_empty() {
            let unheard = plain
                .session
                .run(name, "rejected, with stderr closed", &words, closed);
            compare(&unheard.await, &refused, &mut tally);
        }
    }
    tally.settle(judge, &STDERR, |judge, rule| {
        judge.not_applicable(rule, "the command writes nothing to stderr");
    });
}

fn compare(closed: &Arc<Capture>, open: &Capture, tally: &mut Tally) {
    let fits =
        closed.end == open.end || matches!(closed.end, End::Code(141) | End::Signal(libc::SIGPIPE));
    let wrong = (!fits).then(|| {
        format!(
            "`{}`: {}; with an open stderr: {}",
            closed.probe,
            closed.end.told(),
            open.end.told()
        )
    });
    tally.see(closed, wrong, &closed.end.told());
}
