//! Probes for the continuation strategies that a manifest lists.

use std::sync::Arc;

use serde_json::json;

use super::look;
use super::stand::{Said, Stand};
use crate::run::case::Blocked;
use agentproto_runtime::agent::Agent;
use agentproto_runtime::choices::{Strategy, Wanted};
use agentproto_runtime::continuation::{Ask, Exchange, Pins};
use agentproto_runtime::fault::{Code, Fault};
use agentproto_runtime::session::Session;

/// The caller's choices with this strategy, if the manifest supports it.
fn wanted(stand: &Stand<'_>, strategy: Strategy) -> Result<Wanted, Blocked> {
    let name = strategy.as_str();
    let agent = stand.subject.target.bundle.agent();
    let continuation = agent.and_then(|agent| agent.continuation());
    let supported = continuation.is_some_and(|c| c.supported().any(|s| s == name));
    if !supported {
        let why = format!("the manifest does not list `{name}`");
        return Err(Blocked::NotApplicable(why));
    }
    let mut wanted = stand.wanted();
    wanted.continuation = Some(name.to_owned());
    Ok(wanted)
}

fn load(stand: &Stand<'_>, strategy: Strategy) -> Result<Agent, Blocked> {
    let wanted = wanted(stand, strategy)?;
    stand.load(wanted).map_err(|fault| stand.refused(&fault))
}

fn asking(message: String) -> Ask {
    Ask {
        message,
        conversation: "conversation".to_owned(),
        operator: "operator".to_owned(),
        ..Ask::default()
    }
}

/// Runs a turn with the strategy of the agent, and returns the session that it ran in.
async fn turn(
    stand: &mut Stand<'_>,
    pins: &Pins,
    agent: &Agent,
    ask: Ask,
) -> Result<(Said, Arc<Session>), Fault> {
    stand.played.notes.push(Default::default());
    stand.note(&json!({"prompt": ask.message, "resume": ask.resume, "history": ask.history.len()}));
    let mut running = pins.send(agent, ask).await?;
    let session = Arc::clone(running.session());
    let mut said = Said::default();
    let until = tokio::time::Instant::now() + stand.setting.timeout;
    loop {
        match tokio::time::timeout_at(until, running.next()).await {
            Ok(Some(event)) => stand.heard(&mut said, event),
            Ok(None) => {
                said.ended = true;
                break;
            }
            Err(_) => break,
        }
    }
    Ok((said, session))
}

/// A text that an agent does not say by chance.
fn token(stand: &Stand<'_>) -> String {
    format!("(case {})", stand.subject.marker)
}

/// Runs the first turn. A failure here does not count against the continuation.
async fn first(stand: &mut Stand<'_>, pins: &Pins, agent: &Agent) -> Result<Arc<Session>, Blocked> {
    let text = format!("{} {}", stand.need_prompt("text")?, token(stand));
    let (said, session) = turn(stand, pins, agent, asking(text))
        .await
        .map_err(|fault| stand.refused(&fault))?;
    match said.error() {
        Some(error) => Err(Blocked::NotVerified(format!("the turn failed: {error}"))),
        None if !said.ended => Err(Blocked::NotVerified("the turn did not end".to_owned())),
        None => Ok(session),
    }
}

pub async fn none(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let agent = load(stand, Strategy::None)?;
    let pins = Pins::default();
    let before = first(stand, &pins, &agent).await?;
    let prompt = match stand.prompt("recall") {
        Some(recall) => recall,
        None => stand.need_prompt("text")?,
    };
    let second = turn(stand, &pins, &agent, asking(prompt)).await;
    let (said, after) = second.map_err(|fault| stand.refused(&fault))?;
    let against = if said.text.contains(&token(stand)) {
        Some("the second turn knows what was said in the first turn".to_owned())
    } else if Arc::ptr_eq(&before, &after) || (!after.id().is_empty() && before.id() == after.id())
    {
        Some(format!("both turns ran in the session `{}`", after.id()))
    } else {
        None
    };
    stand.verdict("A45-CONT-03", against, &said.lines());
    Ok(())
}

pub async fn pinned(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let agent = load(stand, Strategy::PinnedSession)?;
    let pins = Pins::default();
    let before = first(stand, &pins, &agent).await?;
    let old = look::agent(&stand.subject.marker);
    let recall = stand.prompt("recall");
    let prompt = match &recall {
        Some(recall) => recall.clone(),
        None => stand.need_prompt("text")?,
    };
    let second = turn(stand, &pins, &agent, asking(prompt)).await;
    let (said, after) = second.map_err(|fault| stand.refused(&fault))?;
    let new = look::agent(&stand.subject.marker);
    let pids = [&old, &new].map(|seen| seen.as_ref().map(|s| s.pid));
    let line = stand.note(&json!({"processes": pids}));
    let _ = pins.close().await;
    let mut lines = said.lines();
    lines.push(line);
    if let Some(error) = said.error().filter(|e| e.is(Code::ProtocolViolation)) {
        return Err(Blocked::NotVerified(format!("the turn failed: {error}")));
    }
    let moved = matches!(pids, [Some(old), Some(new)] if old != new);
    let against = if !Arc::ptr_eq(&before, &after) || moved {
        Some("the second turn did not reach the process of the first turn".to_owned())
    } else if let Some(error) = said.error() {
        Some(format!(
            "the pinned process failed in its second turn: {error}"
        ))
    } else if recall.is_some() && !said.text.contains(&token(stand)) {
        Some("the pinned process does not remember the first turn".to_owned())
    } else {
        None
    };
    stand.verdict("A45-CONT-04", against, &lines);
    Ok(())
}

pub async fn transcript(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let agent = load(stand, Strategy::Transcript)?;
    let said_before = |by_user, text: String| Exchange { by_user, text };
    let mut ask = asking(stand.need_prompt("text")?);
    ask.history = vec![
        said_before(true, format!("Remember this. {}", token(stand))),
        said_before(false, "I do.".to_owned()),
    ];
    let turned = turn(stand, &Pins::default(), &agent, ask).await;
    let (said, _) = turned.map_err(|fault| stand.refused(&fault))?;
    // The cause of a failed turn is unknown, so it does not count against the history.
    let failed = match said.error() {
        Some(error) => Some(error.to_string()),
        None => (!said.ended).then(|| "the turn did not end within the time limit".to_owned()),
    };
    if let Some(why) = failed {
        return Err(Blocked::NotVerified(format!("the turn failed: {why}")));
    }
    stand.met("A45-CONT-07", &said.lines());
    Ok(())
}

pub async fn native_resume(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let agent = load(stand, Strategy::NativeResume)?;
    let pins = Pins::default();
    let before = first(stand, &pins, &agent).await?;
    let id = before.id();
    drop(before);
    // A new run: only the session id and the agent's own storage remain.
    let again = load(stand, Strategy::NativeResume)?;
    let recall = stand.prompt("recall");
    let prompt = match &recall {
        Some(recall) => recall.clone(),
        None => stand.need_prompt("text")?,
    };
    let mut ask = asking(prompt);
    ask.resume = Some(id.clone());
    let (said, _session) = match turn(stand, &pins, &again, ask).await {
        Ok(turned) => turned,
        Err(fault) => {
            let line = stand.fault(&fault);
            let what = format!(
                "the session `{id}` was not resumed: {}: {}",
                fault.code.as_str(),
                fault.message
            );
            stand.broken("A45-CONT-08", what.clone(), &[line]);
            stand.open("A45-SESS-07", Blocked::NotVerified(what));
            return Ok(());
        }
    };
    let mut lines = said.lines();
    let unknown = stand.warnings(&["session_unknown"]);
    lines.extend(unknown.first().map(|(_, line)| *line));
    let against = match (said.error(), unknown.first()) {
        (Some(error), _) => Some(format!("the turn in the session `{id}` failed: {error}")),
        (None, Some((message, _))) => Some(message.clone()),
        (None, None) => None,
    };
    let failed = against.is_some();
    stand.verdict("A45-CONT-08", against, &lines);
    if recall.is_none() {
        let why = "no prompt that asks for earlier messages: add `recall` to the --prompts file";
        stand.open("A45-SESS-07", Blocked::Skip(why.to_owned()));
    } else if failed {
        stand.open(
            "A45-SESS-07",
            Blocked::NotVerified("the turn failed".to_owned()),
        );
    } else {
        let forgot = !said.text.contains(&token(stand));
        let against =
            forgot.then(|| format!("the session `{id}` does not remember the previous run"));
        stand.verdict("A45-SESS-07", against, &lines);
    }
    Ok(())
}
