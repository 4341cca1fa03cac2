//! Probes before the handshake: install, version check, setup.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::stand::Stand;
use crate::run::case::Blocked;
use agentproto_runtime::command::{Command, Line};
use agentproto_runtime::context::Context;
use agentproto_runtime::fault::{Code, Fault};
use agentproto_runtime::install::{self, Action, Installed};
use agentproto_runtime::setup::{self, step};
use agentproto_runtime::version;
use agentproto_sandbox::spawn::Exit;

/// Default time limit in milliseconds (A29-VER-07).
const VERSION_TIMEOUT: i64 = 5000;

/// Checks the install plan. Installs something only if the caller confirmed it (`--yes`).
pub async fn install(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let context = stand.context().map_err(|fault| stand.refused(&fault))?;
    let plan = match install::plan(&context, install::Options::default()) {
        Ok(plan) => plan,
        Err(fault) => {
            let line = stand.fault(&fault);
            stand.broken("A45-LIFE-02", fault.message, &[line]);
            return Ok(());
        }
    };
    let mut lines = Vec::new();
    for step in &plan.steps {
        lines.push(stand.note(&json!({"install": step.json()})));
    }
    if let Some(found) = &plan.found {
        lines.push(stand.note(&json!({"found": found.bin})));
        stand.met("A29-REQ-07", &lines);
        match &plan.blocked {
            Some(why) => {
                let what = format!(
                    "`{}` is installed, but the manifest is not for this machine: {why}",
                    plan.bin
                );
                stand.doubtful("A45-LIFE-02", what, &lines);
            }
            None => stand.met("A45-LIFE-02", &lines),
        }
        return Ok(());
    }
    let fitting = plan
        .steps
        .iter()
        .find(|s| !matches!(s.action, Action::Skip { .. }));
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
            stand.broken("A45-LIFE-02", what, &lines);
            let why = "install_failed: the program is not installed".to_owned();
            stand.open("A29-REQ-07", Blocked::NotVerified(why));
        }
        Ok(step) if !context.yes => {
            let why = format!(
                "`{}` is not installed; {} would {}; pass --yes to allow it",
                plan.bin,
                step.method,
                step.text()
            );
            return Err(Blocked::Skip(why));
        }
        Ok(_) => match install::ensure(&context, install::Options::default()).await {
            Ok(_) => {
                stand.met("A45-LIFE-02", &lines);
                stand.met("A29-REQ-07", &lines);
            }
            Err(fault) => {
                lines.push(stand.fault(&fault));
                let what = format!("{}: {}", fault.code.as_str(), fault.message);
                stand.broken("A45-LIFE-02", what, &lines);
            }
        },
    }
    Ok(())
}

/// The program, if it is installed.
fn installed(stand: &Stand<'_>, context: &Context) -> Result<Installed, Blocked> {
    let plan = install::plan(context, install::Options::default());
    let plan = plan.map_err(|fault| stand.refused(&fault))?;
    plan.found.ok_or_else(|| {
        let why = format!("install_failed: `{}` is not installed", plan.bin);
        Blocked::NotVerified(why)
    })
}

pub async fn version(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let context = stand.context().map_err(|fault| stand.refused(&fault))?;
    let installed = installed(stand, &context)?;
    // Run the command itself first, because the runtime's own check tolerates an exit code.
    let exit = match raw_version(stand, &context, &installed).await {
        Ok(exit) => exit,
        Err(fault) => {
            let line = stand.fault(&fault);
            let blocked = stand.refused(&fault);
            if fault.code != Code::ManifestInvalid {
                return Err(blocked);
            }
            stand.broken("A45-LIFE-03", fault.message, &[line]);
            return Ok(());
        }
    };
    let (exit, line) = exit;
    stand.verdict("A29-VER-02", late_or_failed(&exit), &[line]);
    let probe = version::probe(&context, &installed).await;
    let probe = probe.map_err(|fault| stand.refused(&fault))?;
    let seen = json!({"version": probe.told(), "range": probe.wanted, "fits": probe.fits});
    let lines = [line, stand.note(&seen)];
    match &probe.found {
        Ok(found) => {
            stand.met("A45-LIFE-03", &lines);
            let out = format!(
                "version_mismatch: the version is {found}, but the manifest requires `{}`",
                probe.wanted
            );
            stand.verdict("A29-VER-06", (!probe.fits).then_some(out), &lines);
        }
        Err(why) => {
            stand.open("A29-VER-06", Blocked::NotVerified(why.clone()));
            match exit.timed_out {
                true => stand.open("A45-LIFE-03", Blocked::NotVerified(why.clone())),
                false => stand.broken("A45-LIFE-03", format!("version_mismatch: {why}"), &lines),
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
    stand: &Stand<'_>,
    context: &Context,
    installed: &Installed,
) -> Result<(Exit, u64), Fault> {
    let check = context.bundle.common().version_check();
    let cmd = check.and_then(|check| check.cmd()).unwrap_or_default();
    let words = match Line::parse(cmd) {
        Ok(Line::Words(words)) => words,
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
    let mut command = Command::new(argv);
    let limit = check.and_then(|check| check.timeout_ms());
    let limit = u64::try_from(limit.unwrap_or(VERSION_TIMEOUT)).unwrap_or(1);
    command.timeout = Some(Duration::from_millis(limit.max(1)).min(stand.setting.timeout));
    let done = context.run(command).await?;
    let line = stand.note(&json!({
        "command": cmd,
        "exit": done.exit.status.code(),
        "timed_out": done.exit.timed_out,
        "stdout": String::from_utf8_lossy(done.stdout.get(..500).unwrap_or(&done.stdout)),
        "stderr": done.stderr.chars().take(500).collect::<String>(),
    }));
    Ok((done.exit, line))
}

pub async fn setup(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let context = stand.context().map_err(|fault| stand.refused(&fault))?;
    let ids: Vec<String> = match step::steps(&context.bundle) {
        Ok(steps) => steps.iter().map(|step| step.id.to_owned()).collect(),
        Err(fault) => {
            let line = stand.fault(&fault);
            stand.broken("A45-SETUP-06", fault.message, &[line]);
            return Ok(());
        }
    };
    if ids.is_empty() {
        let why = "the manifest declares no setup";
        return Err(Blocked::NotApplicable(why.to_owned()));
    }
    let installed = installed(stand, &context)?;
    // First run without confirmation, and without anyone to ask.
    let mut headless = context.clone();
    headless.yes = false;
    match setup::run(&headless, &installed.bin, &setup::Choices::default()).await {
        Ok(_) => {
            let why = "every step already matches its `skip_if`".to_owned();
            stand.open("A45-SETUP-07", Blocked::NotApplicable(why));
        }
        Err(fault) if fault.code == Code::SetupRequired => {
            let line = stand.note(&json!({"fault": "setup_required", "details": *fault.details}));
            let pending = pending(&fault.details);
            let unknown = pending.iter().find(|id| !ids.contains(id));
            let against = match (pending.is_empty(), unknown) {
                (true, _) => Some("`setup_required` names no pending step".to_owned()),
                (_, Some(id)) => Some(format!(
                    "`setup_required` names `{id}`, which is not a step"
                )),
                _ => None,
            };
            stand.verdict("A45-SETUP-07", against, &[line]);
        }
        Err(fault) => {
            let blocked = stand.refused(&fault);
            stand.open("A45-SETUP-07", blocked);
        }
    }
    let first = setup::run(&context, &installed.bin, &setup::Choices::default()).await;
    let report = match first {
        Ok(report) => report,
        Err(fault) if fault.code == Code::SetupFailed => {
            let line = stand.fault(&fault);
            let what = format!("setup_failed: {}; the agent was not started", fault.message);
            stand.broken("A45-SETUP-06", what, &[line]);
            stand.open("A45-SETUP-02", Blocked::NotVerified(fault.message));
            return Ok(());
        }
        Err(fault) => return Err(stand.refused(&fault)),
    };
    let steps: Vec<Value> = report
        .steps
        .iter()
        .map(|(id, outcome)| json!({"id": id, "outcome": outcome.as_str()}))
        .collect();
    let line = stand.note(&json!({"setup": steps}));
    let done: HashSet<&str> = report.steps.iter().map(|(id, _)| id.as_str()).collect();
    let missing = ids.iter().find(|id| !done.contains(id.as_str()));
    let against = missing.map(|id| format!("the step `{id}` was neither done nor skipped"));
    stand.verdict("A45-SETUP-06", against, &[line]);
    let again = setup::run(&context, &installed.bin, &setup::Choices::default()).await;
    let again = again.map_err(|fault| stand.refused(&fault))?;
    let twice = again
        .steps
        .iter()
        .find(|(_, outcome)| *outcome == setup::Outcome::Done);
    let against = twice.map(|(id, _)| format!("the step `{id}` was done a second time"));
    stand.verdict("A45-SETUP-02", against, &[line]);
    Ok(())
}

fn pending(details: &Value) -> Vec<String> {
    let list = details.get("pending").and_then(Value::as_array);
    let ids = list.into_iter().flatten().filter_map(|step| step.get("id"));
    ids.filter_map(|id| Some(id.as_str()?.to_owned())).collect()
}
