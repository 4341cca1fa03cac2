//! Check 10: readers that close the pipe, and callers that cancel.

mod marks;
mod pipes;
mod signals;
mod unbounded;

use std::sync::Arc;

use futures::future::join_all;

use super::{is_harmless, plain};
use crate::capture::Capture;
use crate::probe::Command;
use crate::rules::Rule;
use crate::session::{How, Session};
use marks::{EXIT, HANGS, IGNORED, LAST, OK_TRUE, REASON, SUMMARY, TORN, TRACE, ZERO};
use pipes::{PIPE_EXIT, PIPE_HANGS, PIPE_MESSAGE, PIPE_TRACE, STDERR};
use unbounded::{ENDS, SILENT};

pub const RULES: &[&Rule] = &[
    &PIPE_TRACE,
    &PIPE_HANGS,
    &PIPE_EXIT,
    &PIPE_MESSAGE,
    &STDERR,
    &IGNORED,
    &HANGS,
    &TRACE,
    &ZERO,
    &EXIT,
    &OK_TRUE,
    &TORN,
    &LAST,
    &SUMMARY,
    &REASON,
    &SILENT,
    &ENDS,
];

/// Maximum number of tries to hit the tool while it is running.
const TRIES: usize = 3;

/// A command and the arguments of its runs.
struct Plain<'s> {
    session: &'s Session,
    command: &'s Command,
    words: Vec<String>,
    how: How,
    /// The complete run. `None` for an unbounded command.
    run: Option<Arc<Capture>>,
}

impl Plain<'_> {
    async fn start(&self, probe: &str, how: How) -> Arc<Capture> {
        self.session
            .run(&self.command.name, probe, &self.words, how)
            .await
    }

    /// Starts a run, which is repeated if the result is odd and a busy machine may be the cause.
    async fn start_fairly(
        &self,
        probe: &str,
        how: How,
        odd: impl Fn(&Capture) -> bool,
    ) -> Arc<Capture> {
        self.session
            .run_fairly(&self.command.name, probe, &self.words, how, odd)
            .await
    }
}

pub async fn check(session: &Session) {
    join_all(
        session
            .commands()
            .iter()
            .map(|command| judge(session, command)),
    )
    .await;
}

async fn judge(session: &Session, command: &Command) {
    let judge = session.judge(&command.name);
    if !is_harmless(session, command) {
        for rule in RULES.iter().copied() {
            judge.not_applicable(rule, "not tested on commands that change something");
        }
        return;
    }
    let (words, how) = plain(session, command);
    let mut plain = Plain {
        session,
        command,
        words,
        how: how.clone(),
        run: None,
    };
    if !command.unbounded {
        let run = plain.start("ok, for comparison", how).await;
        if !run.end.is_success() || run.stdout.is_empty() {
            for rule in RULES.iter().copied() {
                match command.needs_auth {
                    true => judge.skip(
                        rule,
                        "the command needs a login, and the runs have no credentials",
                    ),
                    false => judge.not_verified(rule, "the `ok` run does not succeed"),
                }
            }
            return;
        }
        plain.run = Some(run);
    }
    tokio::join!(
        pipes::stdout(&plain),
        pipes::stderr(&plain),
        signals::check(&plain),
    );
}
