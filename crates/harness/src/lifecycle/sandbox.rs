//! Checks the declared sandbox: every clause is enforced, and the agent's process is confined.

use serde_json::{Value, json};

use super::look::{Around, Seen};
use super::stand::Stand;
use crate::run::case::Blocked;
use agentproto_runtime::context::Sandboxing;
use agentproto_runtime::fault::{Code, Fault};
use agentproto_sandbox::backend;
use agentproto_sandbox::confined::assess_all;

pub async fn sandbox(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    if stand.subject.target.choices.sandboxing == Sandboxing::Off {
        let why = "the sandbox is disabled (--sandbox off)";
        return Err(Blocked::NotVerified(why.to_owned()));
    }
    let agent = stand.load(stand.wanted());
    let agent = agent.map_err(|fault| stand.refused(&fault))?;
    let spec = match agent.spec().await {
        Ok(spec) => spec,
        // Commands that run before the agent use the same sandbox.
        Err(fault) => return judged(stand, &fault),
    };
    let launch = match agent.context.prepare(&spec.argv, &spec.env) {
        Ok(launch) => launch,
        Err(fault) => return judged(stand, &fault),
    };
    let mut lines = Vec::new();
    if let Some(policy) = &launch.policy {
        for assessment in assess_all(policy, &backend::choose(None)) {
            let value = serde_json::to_value(&assessment).unwrap_or(Value::Null);
            lines.push(stand.note(&json!({"clause": value})));
        }
    }
    drop(launch);
    stand.met("A29-PRIN-02", &lines);
    let (session, seen) = stand.seen(&agent).await?;
    stand.close(&session).await;
    let seen = seen.filter(|seen| !(seen.around.own.is_empty() && seen.around.shared.is_empty()));
    let Some(seen) = seen else {
        let why = "the agent's process could not be inspected while it ran".to_owned();
        stand.open("A45-LIFE-04", Blocked::NotVerified(why));
        return Ok(());
    };
    let (apart, line) = confinement(stand, &seen);
    lines.push(line);
    stand.verdict("A45-LIFE-04", apart, &lines);
    Ok(())
}

/// A refusal because of the sandbox is a violation, unless this machine has no sandbox backend.
fn judged(stand: &mut Stand<'_>, fault: &Fault) -> Result<(), Blocked> {
    let about = matches!(
        fault.code,
        Code::SandboxUnenforceable
            | Code::SandboxUnsupportedProvider
            | Code::SandboxReadOnly
            | Code::SandboxRefUnresolvable
    );
    if !about || backend::choose(None).is_err() {
        return Err(stand.refused(fault));
    }
    let line = stand.fault(fault);
    let what = format!("{}: {}", fault.code.as_str(), fault.message);
    stand.broken("A29-PRIN-02", what.clone(), &[line]);
    stand.open("A45-LIFE-04", Blocked::NotVerified(what));
    Ok(())
}

/// Notes what `/proc` shows about the process, and returns the violation, if any.
fn confinement(stand: &Stand<'_>, seen: &Seen) -> (Option<String>, u64) {
    let around = &seen.around;
    let line = stand.note(&json!({
        "process": seen.pid,
        "own_namespaces": around.own,
        "no_new_privileges": around.no_new_privileges,
        "seccomp": around.seccomp,
    }));
    (unconfined(around), line)
}

fn unconfined(around: &Around) -> Option<String> {
    let needed = ["mnt", "net"];
    let shared: Vec<&str> = needed
        .into_iter()
        .filter(|kind| !around.own.contains(kind))
        .collect();
    if !shared.is_empty() {
        let kinds = shared.join(", ");
        return Some(format!(
            "the agent shares namespaces with the host: {kinds}"
        ));
    }
    let privileges = around.no_new_privileges.as_deref() != Some("1");
    privileges.then(|| "the agent may gain privileges (no_new_privs is not set)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_the_host_namespaces_is_not_confined() {
        let confined = Around {
            own: vec!["mnt", "net", "pid"],
            no_new_privileges: Some("1".to_owned()),
            ..Around::default()
        };
        assert_eq!(unconfined(&confined), None);
        let shares = Around {
            own: vec!["mnt"],
            ..confined.clone()
        };
        assert!(unconfined(&shares).is_some_and(|w| w.contains("net")));
        let powerful = Around {
            no_new_privileges: Some("0".to_owned()),
            ..confined
        };
        assert!(unconfined(&powerful).is_some());
        assert!(unconfined(&Around::default()).is_some());
    }
}
