//! The first run in a new home directory, on a terminal: some tools ask questions only there.

use futures::future::join_all;

use super::refusals::{PROMPT, SILENCE, variable, wait_message};
use crate::capture::ExitKind;
use crate::checks::{is_harmless, ok_run};
use crate::probe::ProbeCommand;
use crate::run::StdinSource;
use crate::session::{LintSession, RunOptions};

/// Runs every command that changes nothing and reads no input.
pub(super) async fn check(session: &LintSession) {
    let commands = session.commands().iter().filter(|command| {
        let reads = command.input.is_some() || command.stdin.is_some();
        is_harmless(session, command) && !command.unbounded && !command.needs_auth && !reads
    });
    join_all(commands.map(|command| check_command(session, command))).await;
}

async fn check_command(session: &LintSession, command: &ProbeCommand) {
    let reporter = session.reporter(&command.name);
    let (words, how) = ok_run(session, command);
    let first = |name: &'static str, input, limit| {
        let how = RunOptions {
            input,
            limit: Some(limit),
            env: vec![variable("TERM", "xterm-256color")],
            dirs: session.new_dirs().ok(),
            ..how.clone()
        };
        let words = words.clone();
        async move { session.run(&command.name, name, &words, how).await }
    };
    let usual = session.options.limit;
    let plain = first("first run", StdinSource::Null, usual).await;
    if plain.end == ExitKind::TimedOut {
        let why = "the first run in a new home directory does not end";
        return reporter.not_verified(&PROMPT, why);
    }
    let name = "first run, on a terminal";
    let mut patience = usual.min(SILENCE + 3 * plain.elapsed);
    let mut shown = first(name, StdinSource::Terminal, patience).await;
    if shown.end == ExitKind::TimedOut {
        // The machine may be slow.
        patience *= 2;
        shown = first(name, StdinSource::Terminal, patience).await;
    }
    let waits = shown.end == ExitKind::TimedOut;
    let violation = waits.then(|| format!("{name}: {}", wait_message(&shown)));
    let proof = "the first run in a new home directory never waits for input";
    reporter.decide(&PROMPT, proof, violation, &shown);
}
