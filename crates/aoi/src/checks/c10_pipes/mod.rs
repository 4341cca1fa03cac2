//! Check 10: a reader that goes away and a caller who cancels.

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

/// What could not be reached is tried so often.
const TRIES: usize = 3;

/// How a command is run here.
struct Plain<'s> {
    session: &'s Session,
    command: &'s Command,
    words: Vec<String>,
    how: How,
    /// Its run to the end; an unbounded stream has none.
    run: Option<Arc<Capture>>,
}

impl Plain<'_> {
    async fn start(&self, probe: &str, how: How) -> Arc<Capture> {
        self.session
            .run(&self.command.name, probe, &self.words, how)
            .await
    }

    /// Tried again where a busy machine may be why it is odd.
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
            judge.not_applicable(rule, "not tried on a command that changes something");
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
                    true => judge.skip(rule, "it needs a login, which the runs do not have"),
                    false => judge.not_verified(rule, "the plain run does not succeed"),
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
