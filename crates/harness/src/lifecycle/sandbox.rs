//! Checks the declared sandbox: every clause is enforced, and the agent's process is confined.

use serde_json::{Value, json};

use super::context::ProbeContext;
use super::process_info::{Confinement, ProcessInfo};
use crate::run::case::NoVerdict;
use agentproto_runtime::context::Sandboxing;
use agentproto_runtime::error::{Code, Error};
use agentproto_sandbox::backend;
use agentproto_sandbox::confined::assess_all;

pub async fn sandbox(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    if probe.subject.target.options.sandboxing == Sandboxing::Off {
        let why = "the sandbox is disabled (--sandbox off)";
        return Err(NoVerdict::NotVerified(why.to_owned()));
    }
    let agent = probe.load(probe.choices());
    let agent = agent.map_err(|error| probe.no_verdict_for(&error))?;
    let spec = match agent.spec().await {
        Ok(spec) => spec,
        // Commands that run before the agent use the same sandbox.
        Err(error) => return check_refusal(probe, &error),
    };
    let launch = match agent.context.prepare(&spec.argv, &spec.env) {
        Ok(launch) => launch,
        Err(error) => return check_refusal(probe, &error),
    };
    let mut lines = Vec::new();
    if let Some(policy) = &launch.policy {
        for assessment in assess_all(policy, &backend::choose(None)) {
            let value = serde_json::to_value(&assessment).unwrap_or(Value::Null);
            lines.push(probe.note(&json!({"clause": value})));
        }
    }
    drop(launch);
    probe.pass("A29-PRIN-02", &lines);
    let (session, seen) = probe.start_inspected(&agent).await?;
    probe.close(&session).await;
    let seen = seen
        .filter(|seen| !(seen.confinement.own.is_empty() && seen.confinement.shared.is_empty()));
    let Some(seen) = seen else {
        let why = "the agent's process could not be inspected while it ran".to_owned();
        probe.undecided("A45-LIFE-04", NoVerdict::NotVerified(why));
        return Ok(());
    };
    let (apart, line) = confinement(probe, &seen);
    lines.push(line);
    probe.verdict("A45-LIFE-04", apart, &lines);
    Ok(())
}

/// A refusal because of the sandbox is a violation, unless this machine has no sandbox backend.
fn check_refusal(probe: &mut ProbeContext<'_>, error: &Error) -> Result<(), NoVerdict> {
    let about = matches!(
        error.code,
        Code::SandboxUnenforceable
            | Code::SandboxUnsupportedProvider
            | Code::SandboxReadOnly
            | Code::SandboxRefUnresolvable
    );
    if !about || backend::choose(None).is_err() {
        return Err(probe.no_verdict_for(error));
    }
    let line = probe.note_error(error);
    let what = format!("{}: {}", error.code.as_str(), error.message);
    probe.violation("A29-PRIN-02", what.clone(), &[line]);
    probe.undecided("A45-LIFE-04", NoVerdict::NotVerified(what));
    Ok(())
}

/// Notes what `/proc` shows about the process, and returns the violation, if any.
fn confinement(probe: &ProbeContext<'_>, seen: &ProcessInfo) -> (Option<String>, u64) {
    let confinement = &seen.confinement;
    let line = probe.note(&json!({
        "process": seen.pid,
        "own_namespaces": confinement.own,
        "no_new_privileges": confinement.no_new_privileges,
        "seccomp": confinement.seccomp,
    }));
    (unconfined(confinement), line)
}

fn unconfined(confinement: &Confinement) -> Option<String> {
    let needed = ["mnt", "net"];
    let shared: Vec<&str> = needed
        .into_iter()
        .filter(|kind| !confinement.own.contains(kind))
        .collect();
    if !shared.is_empty() {
        let kinds = shared.join(", ");
        return Some(format!(
            "the agent shares namespaces with the host: {kinds}"
        ));
    }
    let privileges = confinement.no_new_privileges.as_deref() != Some("1");
    privileges.then(|| "the agent may gain privileges (no_new_privs is not set)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_the_host_namespaces_is_not_confined() {
        let confined = Confinement {
            own: vec!["mnt", "net", "pid"],
            no_new_privileges: Some("1".to_owned()),
            ..Confinement::default()
        };
        assert_eq!(unconfined(&confined), None);
        let shares = Confinement {
            own: vec!["mnt"],
            ..confined.clone()
        };
        assert!(unconfined(&shares).is_some_and(|w| w.contains("net")));
        let powerful = Confinement {
            no_new_privileges: Some("0".to_owned()),
            ..confined
        };
        assert!(unconfined(&powerful).is_some());
        assert!(unconfined(&Confinement::default()).is_some());
    }
}
