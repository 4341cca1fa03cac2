//! Checks the start up to an open session: every stage in order, and within its time limit.

use serde_json::json;

use super::context::ProbeContext;
use super::in_order;
use crate::run::case::NoVerdict;
use agentproto_runtime::audit;
use agentproto_runtime::error::{Code, Error};
use agentproto_runtime::observe::Stage;

pub async fn start(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let agent = probe.load(probe.choices());
    let agent = agent.map_err(|error| probe.no_verdict_for(&error))?;
    probe.outcome.notes.push(Default::default());
    let start_time = tokio::time::Instant::now();
    let session = match agent.start().await {
        Ok(session) => session,
        Err(error) => return failed(probe, &error),
    };
    probe.outcome.startup += start_time.elapsed();
    let line = probe.note(&json!({"session": session.id()}));
    probe.pass("A45-LIFE-05", &[line]);
    let against = session.id().is_empty();
    let against = against.then(|| "the session that was opened has no id".to_owned());
    probe.verdict("A45-LIFE-06", against, &[line]);
    order(probe);
    probe.close(&session).await;
    Ok(())
}

/// The stage that failed determines the violated requirement.
fn failed(probe: &mut ProbeContext<'_>, error: &Error) -> Result<(), NoVerdict> {
    let line = probe.note_error(error);
    let stage = probe.stages().last().map(|started| started.stage);
    let broke_off = matches!(
        error.code,
        Code::HandshakeTimeout | Code::AgentExited | Code::ProtocolViolation | Code::TurnFailed
    );
    let id = match stage {
        Some(Stage::Handshake) if broke_off => "A45-LIFE-05",
        Some(Stage::Session) if error.code != Code::AuthRequired => "A45-LIFE-06",
        _ => return Err(probe.no_verdict_for(error)),
    };
    let what = format!("{}: {}", error.code.as_str(), error.message);
    probe.violation(id, what.clone(), &[line]);
    Err(NoVerdict::NotVerified(what))
}

fn order(probe: &mut ProbeContext<'_>) {
    let started = probe.stages();
    let stages: Vec<Stage> = started.iter().map(|t| t.stage).collect();
    let lines: Vec<u64> = started.iter().map(|t| t.line).collect();
    let names: Vec<&str> = stages.iter().map(|s| s.as_str()).collect();
    let names = names.join(", ");
    let wrong = (!in_order(&stages)).then(|| format!("the stages are out of order: {names}"));
    // The audit log is evidence independent of the observer.
    let logged = logged(probe);
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
    probe.verdict("A45-SETUP-05", against.clone(), &lines);
    probe.verdict("A29-SETUP-21", against, &lines);
    let checked = between(&stages, Stage::VersionCheck, Stage::Install, Stage::Spawn);
    let against = (!checked).then(|| {
        format!("the version was not checked between install and spawn (stages: {names})")
    });
    probe.verdict("A29-VER-08", against, &lines);
    match probe.subject.target.protocol() {
        "acp" => {
            let three = between(&stages, Stage::Handshake, Stage::Spawn, Stage::Session);
            let against = (!three).then(|| {
                format!("spawn, handshake and session did not follow each other (stages: {names})")
            });
            probe.verdict("A44-LIFEC-01", against, &lines);
        }
        other => {
            let why = format!("only for ACP, but the protocol is {other}");
            probe.undecided("A44-LIFEC-01", NoVerdict::NotApplicable(why));
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
fn logged(probe: &ProbeContext<'_>) -> Option<String> {
    let home = probe.context().ok()?.home;
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
