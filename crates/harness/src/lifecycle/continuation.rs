//! Probes for the continuation strategies that a manifest lists.

use std::sync::Arc;

use serde_json::json;

use super::context::{ProbeContext, TurnEvents};
use super::process_info;
use crate::run::case::NoVerdict;
use agentproto_runtime::agent::Agent;
use agentproto_runtime::choices::{Choices, Strategy};
use agentproto_runtime::continuation::{Exchange, Pins, TurnRequest};
use agentproto_runtime::error::{Code, Error};
use agentproto_runtime::session::Session;

/// The caller's choices with this strategy, if the manifest supports it.
fn choices_for(probe: &ProbeContext<'_>, strategy: Strategy) -> Result<Choices, NoVerdict> {
    let name = strategy.as_str();
    let agent = probe.subject.target.bundle.agent();
    let continuation = agent.and_then(|agent| agent.continuation());
    let supported = continuation.is_some_and(|c| c.supported().any(|s| s == name));
    if !supported {
        let why = format!("the manifest does not list `{name}`");
        return Err(NoVerdict::NotApplicable(why));
    }
    let mut choices = probe.choices();
    choices.continuation = Some(name.to_owned());
    Ok(choices)
}

fn load(probe: &ProbeContext<'_>, strategy: Strategy) -> Result<Agent, NoVerdict> {
    let choices = choices_for(probe, strategy)?;
    probe
        .load(choices)
        .map_err(|error| probe.no_verdict_for(&error))
}

fn turn_request(message: String) -> TurnRequest {
    TurnRequest {
        message,
        conversation: "conversation".to_owned(),
        operator: "operator".to_owned(),
        ..TurnRequest::default()
    }
}

/// Runs a turn with the strategy of the agent, and returns the session that it ran in.
async fn turn(
    probe: &mut ProbeContext<'_>,
    pins: &Pins,
    agent: &Agent,
    ask: TurnRequest,
) -> Result<(TurnEvents, Arc<Session>), Error> {
    probe.outcome.notes.push(Default::default());
    probe.note(&json!({"prompt": ask.message, "resume": ask.resume, "history": ask.history.len()}));
    let mut running = pins.send(agent, ask).await?;
    let session = Arc::clone(running.session());
    let mut turn_events = TurnEvents::default();
    let until = tokio::time::Instant::now() + probe.config.timeout;
    loop {
        match tokio::time::timeout_at(until, running.next()).await {
            Ok(Some(event)) => probe.record_event(&mut turn_events, event),
            Ok(None) => {
                turn_events.ended = true;
                break;
            }
            Err(_) => break,
        }
    }
    Ok((turn_events, session))
}

/// A text that an agent does not say by chance.
fn token(probe: &ProbeContext<'_>) -> String {
    format!("(case {})", probe.subject.marker)
}

/// Runs the first turn. A failure here does not count against the continuation.
async fn first(
    probe: &mut ProbeContext<'_>,
    pins: &Pins,
    agent: &Agent,
) -> Result<Arc<Session>, NoVerdict> {
    let text = format!("{} {}", probe.need_prompt("text")?, token(probe));
    let (turn_events, session) = turn(probe, pins, agent, turn_request(text))
        .await
        .map_err(|error| probe.no_verdict_for(&error))?;
    match turn_events.error() {
        Some(error) => Err(NoVerdict::NotVerified(format!("the turn failed: {error}"))),
        None if !turn_events.ended => {
            Err(NoVerdict::NotVerified("the turn did not end".to_owned()))
        }
        None => Ok(session),
    }
}

pub async fn none(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let agent = load(probe, Strategy::None)?;
    let pins = Pins::default();
    let before = first(probe, &pins, &agent).await?;
    let prompt = match probe.prompt("recall") {
        Some(recall) => recall,
        None => probe.need_prompt("text")?,
    };
    let second = turn(probe, &pins, &agent, turn_request(prompt)).await;
    let (turn_events, after) = second.map_err(|error| probe.no_verdict_for(&error))?;
    let against = if turn_events.text.contains(&token(probe)) {
        Some("the second turn knows what was said in the first turn".to_owned())
    } else if Arc::ptr_eq(&before, &after) {
        // Ids are not compared: two processes may both number their sessions from 1.
        Some(format!("both turns ran in the session `{}`", after.id()))
    } else {
        None
    };
    probe.verdict("A45-CONT-03", against, &turn_events.lines());
    Ok(())
}

pub async fn pinned(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let agent = load(probe, Strategy::PinnedSession)?;
    let pins = Pins::default();
    let before = first(probe, &pins, &agent).await?;
    let old = process_info::agent(&probe.subject.marker);
    let recall = probe.prompt("recall");
    let prompt = match &recall {
        Some(recall) => recall.clone(),
        None => probe.need_prompt("text")?,
    };
    let second = turn(probe, &pins, &agent, turn_request(prompt)).await;
    let (turn_events, after) = second.map_err(|error| probe.no_verdict_for(&error))?;
    let new = process_info::agent(&probe.subject.marker);
    let pids = [&old, &new].map(|seen| seen.as_ref().map(|s| s.pid));
    let line = probe.note(&json!({"processes": pids}));
    let _ = pins.close().await;
    let mut lines = turn_events.lines();
    lines.push(line);
    if let Some(error) = turn_events
        .error()
        .filter(|e| e.is(Code::ProtocolViolation))
    {
        return Err(NoVerdict::NotVerified(format!("the turn failed: {error}")));
    }
    let moved = matches!(pids, [Some(old), Some(new)] if old != new);
    let against = if !Arc::ptr_eq(&before, &after) || moved {
        Some("the second turn did not reach the process of the first turn".to_owned())
    } else if let Some(error) = turn_events.error() {
        Some(format!(
            "the pinned process failed in its second turn: {error}"
        ))
    } else if recall.is_some() && !turn_events.text.contains(&token(probe)) {
        Some("the pinned process does not remember the first turn".to_owned())
    } else {
        None
    };
    probe.verdict("A45-CONT-04", against, &lines);
    Ok(())
}

pub async fn transcript(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let agent = load(probe, Strategy::Transcript)?;
    let said_before = |by_user, text: String| Exchange { by_user, text };
    let mut ask = turn_request(probe.need_prompt("text")?);
    ask.history = vec![
        said_before(true, format!("Remember this. {}", token(probe))),
        said_before(false, "I do.".to_owned()),
    ];
    let turned = turn(probe, &Pins::default(), &agent, ask).await;
    let (turn_events, _) = turned.map_err(|error| probe.no_verdict_for(&error))?;
    // The cause of a failed turn is unknown, so it does not count against the history.
    let failed = match turn_events.error() {
        Some(error) => Some(error.to_string()),
        None => {
            (!turn_events.ended).then(|| "the turn did not end within the time limit".to_owned())
        }
    };
    if let Some(why) = failed {
        return Err(NoVerdict::NotVerified(format!("the turn failed: {why}")));
    }
    probe.pass("A45-CONT-07", &turn_events.lines());
    Ok(())
}

pub async fn native_resume(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let agent = load(probe, Strategy::NativeResume)?;
    let pins = Pins::default();
    let before = first(probe, &pins, &agent).await?;
    let id = before.id();
    drop(before);
    // A new run: only the session id and the agent's own storage remain.
    let again = load(probe, Strategy::NativeResume)?;
    let recall = probe.prompt("recall");
    let prompt = match &recall {
        Some(recall) => recall.clone(),
        None => probe.need_prompt("text")?,
    };
    let mut ask = turn_request(prompt);
    ask.resume = Some(id.clone());
    let (turn_events, _session) = match turn(probe, &pins, &again, ask).await {
        Ok(turned) => turned,
        Err(error) => {
            let line = probe.note_error(&error);
            let what = format!(
                "the session `{id}` was not resumed: {}: {}",
                error.code.as_str(),
                error.message
            );
            probe.violation("A45-CONT-08", what.clone(), &[line]);
            probe.undecided("A45-SESS-07", NoVerdict::NotVerified(what));
            return Ok(());
        }
    };
    let mut lines = turn_events.lines();
    let unknown = probe.warnings(&["session_unknown"]);
    lines.extend(unknown.first().map(|(_, line)| *line));
    let against = match (turn_events.error(), unknown.first()) {
        (Some(error), _) => Some(format!("the turn in the session `{id}` failed: {error}")),
        (None, Some((message, _))) => Some(message.clone()),
        (None, None) => None,
    };
    let failed = against.is_some();
    probe.verdict("A45-CONT-08", against, &lines);
    if recall.is_none() {
        let why = "no prompt that asks for earlier messages: add `recall` to the --prompts file";
        probe.undecided("A45-SESS-07", NoVerdict::Skip(why.to_owned()));
    } else if failed {
        probe.undecided(
            "A45-SESS-07",
            NoVerdict::NotVerified("the turn failed".to_owned()),
        );
    } else {
        let forgot = !turn_events.text.contains(&token(probe));
        let against =
            forgot.then(|| format!("the session `{id}` does not remember the previous run"));
        probe.verdict("A45-SESS-07", against, &lines);
    }
    Ok(())
}
