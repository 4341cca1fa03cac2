//! Completes the probe file with what the tool says about itself and with the resources that
//! commands need, after discovery and before the other checks.

use std::collections::BTreeMap;

use futures::future::join_all;

use crate::capture::ExitKind;
use crate::checks::{is_harmless, ok_run};
use crate::observe::{Mutation, declares};
use crate::probe::ProbeCommand;
use crate::session::{LintSession, RunOptions};

/// Completes the commands, then creates the resources that read-only commands need.
pub async fn run(session: &LintSession) {
    let commands = session.probe.commands.iter();
    let commands = join_all(commands.map(|command| async move {
        ProbeCommand {
            unbounded: is_unbounded(session, command).await,
            ..command.clone()
        }
    }));
    session.set_commands(commands.await);
    session.set_targets(targets(session).await);
}

/// Whether the command runs until it is stopped. `bounded: false` can also mean a list without a
/// limit, and `unbounded: true` can be about one option only. So the command is run to find out.
async fn is_unbounded(session: &LintSession, command: &ProbeCommand) -> bool {
    if command.unbounded {
        return true;
    }
    let declared = session.declared.get();
    let bounded = declared.and_then(|declared| declared.flag(&command.name, "bounded"));
    let is_declared = bounded == Some(false) || declares(session, command, "unbounded");
    if !is_declared || !is_harmless(session, command) || command.needs_auth {
        return false;
    }
    let (words, how) = ok_run(session, command);
    let how = RunOptions {
        dirs: session.new_dirs().ok(),
        ..how
    };
    let name = "ok, to see whether it ends";
    let run = session.run(&command.name, name, &words, how).await;
    run.end == ExitKind::TimedOut
}

/// The ids of the resources that commands without side effects need, by command name. They are
/// created in the directories that such runs share.
async fn targets(session: &LintSession) -> BTreeMap<String, String> {
    let mut targets = BTreeMap::new();
    if !session.probe.sandbox {
        return targets;
    }
    for command in session.commands() {
        if command.target_from.is_none() || !is_harmless(session, command) {
            continue;
        }
        let mutation = Mutation {
            session,
            command,
            dirs: session.shared_dirs().clone(),
        };
        if let Ok(Some(id)) = mutation.target().await {
            targets.insert(command.name.clone(), id);
        }
    }
    targets
}
