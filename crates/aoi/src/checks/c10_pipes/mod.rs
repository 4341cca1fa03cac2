//! Check 10: readers that close the pipe, and callers that cancel.

mod pipes;
mod signal_verdicts;
mod signals;
mod silence;
mod unbounded;
mod waiting;

use std::sync::Arc;

use futures::future::join_all;

use super::{is_harmless, ok_run};
use crate::capture::Capture;
use crate::probe::ProbeCommand;
use crate::rules::Rule;
use crate::session::{LintSession, RunOptions};
use pipes::{PIPE_EXIT, PIPE_HANGS, PIPE_MESSAGE, PIPE_TRACE, STDERR};
use signal_verdicts::{EXIT, HANGS, IGNORED, LAST, OK_TRUE, REASON, SUMMARY, TORN, TRACE, ZERO};
pub use unbounded::WATCHED;
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
struct PipeProbe<'s> {
    session: &'s LintSession,
    command: &'s ProbeCommand,
    words: Vec<String>,
    how: RunOptions,
    /// The complete run. `None` for an unbounded command.
    run: Option<Arc<Capture>>,
}

impl PipeProbe<'_> {
    async fn start(&self, probe: &str, how: RunOptions) -> Arc<Capture> {
        self.session
            .run(&self.command.name, probe, &self.words, how)
            .await
    }

    /// Starts a run, which is repeated if the result is odd and a busy machine may be the cause.
    async fn start_with_retries(
        &self,
        probe: &str,
        how: RunOptions,
        is_suspicious: impl Fn(&Capture) -> bool,
    ) -> Arc<Capture> {
        self.session
            .run_with_retries(&self.command.name, probe, &self.words, how, is_suspicious)
            .await
    }
}

pub async fn check(session: &LintSession) {
    join_all(
        session
            .commands()
            .iter()
            .map(|command| check_command(session, command)),
    )
    .await;
}

async fn check_command(session: &LintSession, command: &ProbeCommand) {
    let reporter = session.reporter(&command.name);
    if !is_harmless(session, command) {
        let is_slow = waiting::has_slow_change(session, command);
        for rule in RULES.iter().copied() {
            if !is_slow || !waiting::is_decided(rule.id) {
                reporter.not_applicable(rule, "not tested on commands that change something");
            }
        }
        if is_slow {
            waiting::changes(session, command, reporter).await;
        }
        return;
    }
    let (words, how) = ok_run(session, command);
    let mut probe = PipeProbe {
        session,
        command,
        words,
        how: how.clone(),
        run: None,
    };
    if !command.unbounded {
        let run = probe.start("ok, for comparison", how).await;
        if !run.end.is_success() || run.stdout.is_empty() {
            for rule in RULES.iter().copied() {
                match command.needs_auth {
                    true => reporter.skip(
                        rule,
                        "the command needs a login, and the runs have no credentials",
                    ),
                    false => reporter
                        .not_verified(rule, "the command fails even with the arguments as given"),
                }
            }
            return;
        }
        probe.run = Some(run);
    }
    tokio::join!(
        pipes::stdout(&probe),
        pipes::stderr(&probe),
        signals::check(&probe),
    );
}
