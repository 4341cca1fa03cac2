//! Signals that arrive while the command waits: for more input, or in the middle of a change.

use std::sync::Arc;

use futures::future::join_all;

use super::PipeProbe;
use super::signal_verdicts::SignalVerdicts;
use super::signals::SIGNAL;
use super::unbounded::SILENT;
use crate::capture::Capture;
use crate::checks::upstream_input;
use crate::observe::{Mutation, ProbeBlocked, run_mutation};
use crate::probe::ProbeCommand;
use crate::run::{ReadMode, StdinSource};
use crate::session::{LintSession, Reporter, RunOptions};

/// Runs of a command whose input does not end, each with its signal. Runs that print nothing before
/// the end of their input are left out, because their stream has not begun.
pub(super) async fn runs(probe: &PipeProbe<'_>) -> Vec<(Arc<Capture>, i32)> {
    let Some(input) = &probe.command.input else {
        return Vec::new();
    };
    let signals = [
        (libc::SIGINT, "SIGINT while waiting for input"),
        (libc::SIGTERM, "SIGTERM while waiting for input"),
    ];
    let runs = signals.map(|(number, name)| async move {
        let how = RunOptions {
            input: StdinSource::Held(upstream_input(input, false)),
            reader: ReadMode::Signal {
                number,
                group: false,
            },
            ..probe.how.clone()
        };
        let is_suspicious = |run: &Capture| !run.action_done;
        (
            probe.start_with_retries(name, how, is_suspicious).await,
            number,
        )
    });
    let runs = join_all(runs).await.into_iter();
    runs.filter(|(run, _)| run.action_done).collect()
}

/// Interrupts the `slow` run of a command that changes something, in its own directories.
pub(super) async fn changes(session: &LintSession, command: &ProbeCommand, reporter: Reporter<'_>) {
    let mut verdicts = SignalVerdicts::default();
    for (number, name) in [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM")] {
        let done = run_mutation(session, command, &SILENT, async |mutation| {
            interrupt(mutation, number, name).await
        });
        match done.await {
            Ok(Ok(run)) if run.action_done => verdicts.check_run(&run, number),
            Ok(Ok(_)) => verdicts.unverify_all(&format!(
                "{name} never arrived while the `slow` run was active"
            )),
            Ok(Err(why)) | Err(ProbeBlocked::NotVerified(why) | ProbeBlocked::Skip(why)) => {
                verdicts.unverify_all(&why);
            }
        }
    }
    verdicts.report(reporter);
}

async fn interrupt(
    mutation: &Mutation<'_>,
    number: i32,
    name: &str,
) -> Result<Arc<Capture>, String> {
    let id = mutation.target().await?;
    let how = RunOptions {
        reader: ReadMode::Signal {
            number,
            group: false,
        },
        slow: true,
        ..RunOptions::default()
    };
    let call = mutation.slow(id.as_deref());
    Ok(mutation.run(name, &call, how).await)
}

/// Whether the probe file allows a run of the command that changes something and takes long.
pub(super) fn has_slow_change(session: &LintSession, command: &ProbeCommand) -> bool {
    session.probe.sandbox && command.slow.is_some() && !command.needs_auth && !command.unbounded
}

/// The rules that `changes` decides.
pub(super) fn is_decided(id: &str) -> bool {
    SIGNAL.iter().any(|rule| rule.id == id)
}
