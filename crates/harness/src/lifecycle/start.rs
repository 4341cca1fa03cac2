//! Checks the start up to an open session: every stage in order, and within its time limit.

use serde_json::json;

use super::in_order;
use super::stand::Stand;
use crate::run::case::Blocked;
use agentproto_runtime::audit;
use agentproto_runtime::fault::{Code, Fault};
use agentproto_runtime::observe::Stage;

pub async fn start(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let agent = stand.load(stand.wanted());
    let agent = agent.map_err(|fault| stand.refused(&fault))?;
    stand.played.notes.push(Default::default());
    let begun = tokio::time::Instant::now();
    let session = match agent.start().await {
        Ok(session) => session,
        Err(fault) => return failed(stand, &fault),
    };
    stand.played.startup += begun.elapsed();
    let line = stand.note(&json!({"session": session.id()}));
    stand.met("A45-LIFE-05", &[line]);
    let against = session.id().is_empty();
    let against = against.then(|| "the session that was opened has no id".to_owned());
    stand.verdict("A45-LIFE-06", against, &[line]);
    order(stand);
    stand.close(&session).await;
    Ok(())
}

/// The stage that failed determines the violated requirement.
fn failed(stand: &mut Stand<'_>, fault: &Fault) -> Result<(), Blocked> {
    let line = stand.fault(fault);
    let stage = stand.stages().last().map(|told| told.stage);
    let broke_off = matches!(
        fault.code,
        Code::HandshakeTimeout | Code::AgentExited | Code::ProtocolViolation | Code::TurnFailed
    );
    let id = match stage {
        Some(Stage::Handshake) if broke_off => "A45-LIFE-05",
        Some(Stage::Session) if fault.code != Code::AuthRequired => "A45-LIFE-06",
        _ => return Err(stand.refused(fault)),
    };
    let what = format!("{}: {}", fault.code.as_str(), fault.message);
    stand.broken(id, what.clone(), &[line]);
    Err(Blocked::NotVerified(what))
}

fn order(stand: &mut Stand<'_>) {
    let told = stand.stages();
    let stages: Vec<Stage> = told.iter().map(|t| t.stage).collect();
    let lines: Vec<u64> = told.iter().map(|t| t.line).collect();
    let names: Vec<&str> = stages.iter().map(|s| s.as_str()).collect();
    let names = names.join(", ");
    let wrong = (!in_order(&stages)).then(|| format!("the stages are out of order: {names}"));
    // The audit log is evidence independent of the observer.
    let logged = logged(stand);
    let differs = logged.is_some_and(|logged| logged != names);
    let differs = differs.then(|| format!("the audit log has different stages than {names}"));
    let missing = missing(
        &stages,
        &[
            Stage::Install,
            Stage::VersionCheck,
            Stage::Spawn,
            Stage::Handshake,
            Stage::Session,
        ],
    );
    let against = wrong.clone().or(differs).or(missing);
    stand.verdict("A45-SETUP-05", against.clone(), &lines);
    stand.verdict("A29-SETUP-21", against, &lines);
    let checked = between(&stages, Stage::VersionCheck, Stage::Install, Stage::Spawn);
    let against = (!checked).then(|| {
        format!("the version was not checked between install and spawn (stages: {names})")
    });
    stand.verdict("A29-VER-08", against, &lines);
    match stand.subject.target.protocol() {
        "acp" => {
            let three = between(&stages, Stage::Handshake, Stage::Spawn, Stage::Session);
            let against = (!three).then(|| {
                format!("spawn, handshake and session did not follow each other (stages: {names})")
            });
            stand.verdict("A44-LIFEC-01", against, &lines);
        }
        other => {
            let why = format!("only for ACP, but the protocol is {other}");
            stand.open("A44-LIFEC-01", Blocked::NotApplicable(why));
        }
    }
}

fn missing(stages: &[Stage], wanted: &[Stage]) -> Option<String> {
    let missing = wanted.iter().find(|stage| !stages.contains(stage))?;
    Some(format!("the stage {} is missing", missing.as_str()))
}

/// Whether a stage is between two others, and all three took place.
fn between(stages: &[Stage], stage: Stage, after: Stage, before: Stage) -> bool {
    let at = |wanted: Stage| stages.iter().position(|stage| *stage == wanted);
    match (at(after), at(stage), at(before)) {
        (Some(after), Some(stage), Some(before)) => after < stage && stage < before,
        _ => false,
    }
}

/// The stages in the audit log, in order.
fn logged(stand: &Stand<'_>) -> Option<String> {
    let home = stand.context().ok()?.home;
    let text = std::fs::read_to_string(audit::default_path(&home)).ok()?;
    let events = text.lines().filter_map(|line| {
        let entry: serde_json::Value = serde_json::from_str(line).ok()?;
        let event = super::audit::event_of(&entry)?;
        Some(event.strip_prefix("stage.")?.to_owned())
    });
    Some(events.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_out_of_order_are_noticed() {
        use Stage::{Handshake, Install, Session, Setup, Spawn, VersionCheck};
        assert!(in_order(&[
            Install,
            VersionCheck,
            Setup,
            Spawn,
            Handshake,
            Session
        ]));
        assert!(!in_order(&[VersionCheck, Install, Spawn]));
        assert!(!in_order(&[Install, Spawn, Setup]));
        assert!(between(
            &[Install, VersionCheck, Spawn],
            VersionCheck,
            Install,
            Spawn
        ));
        assert!(!between(
            &[Install, Spawn, VersionCheck],
            VersionCheck,
            Install,
            Spawn
        ));
        assert!(!between(&[Install, Spawn], VersionCheck, Install, Spawn));
        assert!(missing(&[Install], &[Install, Spawn]).is_some());
    }
}
