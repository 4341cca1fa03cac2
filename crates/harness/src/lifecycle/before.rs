//! Probes before the handshake: install, version check, setup.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::context::ProbeContext;
use crate::run::case::NoVerdict;
use agentproto_runtime::command::{BundleCommand, CommandLine};
use agentproto_runtime::context::Context;
use agentproto_runtime::error::{Code, Error};
use agentproto_runtime::install::{self, InstallAction, Installed};
use agentproto_runtime::setup::{self, step};
use agentproto_runtime::version;
use agentproto_sandbox::spawn::Exit;

/// Default time limit in milliseconds (A29-VER-07).
const VERSION_TIMEOUT: i64 = 5000;

/// Checks the install plan. Installs something only if the caller confirmed it (`--yes`).
pub async fn install(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let context = probe
        .context()
        .map_err(|error| probe.no_verdict_for(&error))?;
    let plan = match install::plan(&context, install::InstallOptions::default()) {
        Ok(plan) => plan,
        Err(error) => {
            let line = probe.note_error(&error);
            probe.violation("A45-LIFE-02", error.message, &[line]);
            return Ok(());
        }
    };
    let mut lines = Vec::new();
    for step in &plan.steps {
        lines.push(probe.note(&json!({"install": step.json()})));
    }
    if let Some(found) = &plan.found {
        lines.push(probe.note(&json!({"found": found.bin})));
        probe.pass("A29-REQ-07", &lines);
        match &plan.blocked {
            Some(why) => {
                let what = format!(
                    "`{}` is installed, but the manifest is not for this machine: {why}",
                    plan.bin
                );
                probe.suspicion("A45-LIFE-02", what, &lines);
            }
            None => probe.pass("A45-LIFE-02", &lines),
        }
        return Ok(());
    }
    let fitting = plan
        .steps
        .iter()
        .find(|s| !matches!(s.action, InstallAction::Skip { .. }));
    let fitting = match (&plan.blocked, fitting) {
        (Some(missed), _) => Err(missed.to_string()),
        (None, None) => Err("no declared method fits this machine".to_owned()),
        (None, Some(step)) => Ok(step),
    };
    match fitting {
        Err(why) => {
            let passed: Vec<String> = plan
                .steps
                .iter()
                .map(|s| format!("{}: {}", s.method, s.text()))
                .collect();
            let what = format!(
                "`{}` is not installed and cannot be installed: {why}; {}",
                plan.bin,
                passed.join("; ")
            );
            probe.violation("A45-LIFE-02", what, &lines);
            let why = "install_failed: the program is not installed".to_owned();
            probe.undecided("A29-REQ-07", NoVerdict::NotVerified(why));
        }
        Ok(step) if !context.yes => {
            let why = format!(
                "`{}` is not installed; {} would {}; pass --yes to allow it",
                plan.bin,
                step.method,
                step.text()
            );
            return Err(NoVerdict::Skip(why));
        }
        Ok(_) => match install::ensure(&context, install::InstallOptions::default()).await {
            Ok(_) => {
                probe.pass("A45-LIFE-02", &lines);
                probe.pass("A29-REQ-07", &lines);
            }
            Err(error) => {
                lines.push(probe.note_error(&error));
                let what = format!("{}: {}", error.code.as_str(), error.message);
                probe.violation("A45-LIFE-02", what, &lines);
            }
        },
    }
    Ok(())
}

/// The program, if it is installed.
fn installed(probe: &ProbeContext<'_>, context: &Context) -> Result<Installed, NoVerdict> {
    let plan = install::plan(context, install::InstallOptions::default());
    let plan = plan.map_err(|error| probe.no_verdict_for(&error))?;
    plan.found.ok_or_else(|| {
        let why = format!("install_failed: `{}` is not installed", plan.bin);
        NoVerdict::NotVerified(why)
    })
}

pub async fn version(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let context = probe
        .context()
        .map_err(|error| probe.no_verdict_for(&error))?;
    let installed = installed(probe, &context)?;
    // Run the command itself first, because the runtime's own check tolerates an exit code.
    let exit = match raw_version(probe, &context, &installed).await {
        Ok(exit) => exit,
        Err(error) => {
            let line = probe.note_error(&error);
            let no_verdict = probe.no_verdict_for(&error);
            if error.code != Code::ManifestInvalid {
                return Err(no_verdict);
            }
            probe.violation("A45-LIFE-03", error.message, &[line]);
            return Ok(());
        }
    };
    let (exit, line) = exit;
    probe.verdict("A29-VER-02", late_or_failed(&exit), &[line]);
    let check = version::probe(&context, &installed).await;
    let check = check.map_err(|error| probe.no_verdict_for(&error))?;
    let seen = json!({"version": check.text(), "range": check.range, "fits": check.fits});
    let lines = [line, probe.note(&seen)];
    match &check.found {
        Ok(found) => {
            probe.pass("A45-LIFE-03", &lines);
            let out = format!(
                "version_mismatch: the version is {found}, but the manifest requires `{}`",
                check.range
            );
            probe.verdict("A29-VER-06", (!check.fits).then_some(out), &lines);
        }
        Err(why) => {
            probe.undecided("A29-VER-06", NoVerdict::NotVerified(why.clone()));
            match exit.timed_out {
                true => probe.undecided("A45-LIFE-03", NoVerdict::NotVerified(why.clone())),
                false => probe.violation("A45-LIFE-03", format!("version_mismatch: {why}"), &lines),
            }
        }
    }
    Ok(())
}

fn late_or_failed(exit: &Exit) -> Option<String> {
    if exit.timed_out {
        return Some("the version command did not finish within `timeout_ms`".to_owned());
    }
    let ended = exit.status;
    (!ended.success())
        .then(|| format!("the version command ended with {ended}, expected exit code 0"))
}

async fn raw_version(
    probe: &ProbeContext<'_>,
    context: &Context,
    installed: &Installed,
) -> Result<(Exit, u64), Error> {
    let check = context.bundle.common().version_check();
    let cmd = check.and_then(|check| check.cmd()).unwrap_or_default();
    let words = match CommandLine::parse(cmd) {
        Ok(CommandLine::Words(words)) => words,
        _ => {
            let node = context.bundle.root().get("version_check");
            let node = node.unwrap_or(context.bundle.root());
            return Err(context
                .bundle
                .invalid(node, "`version_check.cmd` is not a plain command"));
        }
    };
    let bin = context.bundle.text("bin")?;
    let mut argv: Vec<std::ffi::OsString> = words.into_iter().map(Into::into).collect();
    if let Some(first) = argv.first_mut().filter(|first| *first == bin) {
        *first = installed.bin.clone().into_os_string();
    }
    let mut command = BundleCommand::new(argv);
    let limit = check.and_then(|check| check.timeout_ms());
    let limit = u64::try_from(limit.unwrap_or(VERSION_TIMEOUT)).unwrap_or(1);
    command.timeout = Some(Duration::from_millis(limit.max(1)).min(probe.config.timeout));
    let done = context.run(command).await?;
    let line = probe.note(&json!({
        "command": cmd,
        "exit": done.exit.status.code(),
        "timed_out": done.exit.timed_out,
        "stdout": String::from_utf8_lossy(done.stdout.get(..500).unwrap_or(&done.stdout)),
        "stderr": done.stderr.chars().take(500).collect::<String>(),
    }));
    Ok((done.exit, line))
}

pub async fn setup(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let context = probe
        .context()
        .map_err(|error| probe.no_verdict_for(&error))?;
    let ids: Vec<String> = match step::steps(&context.bundle) {
        Ok(steps) => steps.iter().map(|step| step.id.to_owned()).collect(),
        Err(error) => {
            let line = probe.note_error(&error);
            probe.violation("A45-SETUP-06", error.message, &[line]);
            return Ok(());
        }
    };
    if ids.is_empty() {
        let why = "the manifest declares no setup";
        return Err(NoVerdict::NotApplicable(why.to_owned()));
    }
    let installed = installed(probe, &context)?;
    // First run without confirmation, and without anyone to ask.
    let mut headless = context.clone();
    headless.yes = false;
    match setup::run(&headless, &installed.bin, &setup::SetupOptions::default()).await {
        Ok(_) => {
            let why = "every step already matches its `skip_if`".to_owned();
            probe.undecided("A45-SETUP-07", NoVerdict::NotApplicable(why));
        }
        Err(error) if error.code == Code::SetupRequired => {
            let line = probe.note(&json!({"fault": "setup_required", "details": *error.details}));
            let pending = pending(&error.details);
            let unknown = pending.iter().find(|id| !ids.contains(id));
            let against = match (pending.is_empty(), unknown) {
                (true, _) => Some("`setup_required` names no pending step".to_owned()),
                (_, Some(id)) => Some(format!(
                    "`setup_required` names `{id}`, which is not a step"
                )),
                _ => None,
            };
            probe.verdict("A45-SETUP-07", against, &[line]);
        }
        Err(error) => {
            let no_verdict = probe.no_verdict_for(&error);
            probe.undecided("A45-SETUP-07", no_verdict);
        }
    }
    let first = setup::run(&context, &installed.bin, &setup::SetupOptions::default()).await;
    let report = match first {
        Ok(report) => report,
        Err(error) if error.code == Code::SetupFailed => {
            let line = probe.note_error(&error);
            let what = format!("setup_failed: {}; the agent was not started", error.message);
            probe.violation("A45-SETUP-06", what, &[line]);
            probe.undecided("A45-SETUP-02", NoVerdict::NotVerified(error.message));
            return Ok(());
        }
        Err(error) => return Err(probe.no_verdict_for(&error)),
    };
    let steps: Vec<Value> = report
        .steps
        .iter()
        .map(|(id, outcome)| json!({"id": id, "outcome": outcome.as_str()}))
        .collect();
    let line = probe.note(&json!({"setup": steps}));
    let done: HashSet<&str> = report.steps.iter().map(|(id, _)| id.as_str()).collect();
    let missing = ids.iter().find(|id| !done.contains(id.as_str()));
    let against = missing.map(|id| format!("the step `{id}` was neither done nor skipped"));
    probe.verdict("A45-SETUP-06", against, &[line]);
    let again = setup::run(&context, &installed.bin, &setup::SetupOptions::default()).await;
    let again = again.map_err(|error| probe.no_verdict_for(&error))?;
    let twice = again
        .steps
        .iter()
        .find(|(_, outcome)| *outcome == setup::StepOutcome::Done);
    let against = twice.map(|(id, _)| format!("the step `{id}` was done a second time"));
    probe.verdict("A45-SETUP-02", against, &[line]);
    Ok(())
}

fn pending(details: &Value) -> Vec<String> {
    let list = details.get("pending").and_then(Value::as_array);
    let ids = list.into_iter().flatten().filter_map(|step| step.get("id"));
    ids.filter_map(|id| Some(id.as_str()?.to_owned())).collect()
}
