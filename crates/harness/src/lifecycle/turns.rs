//! Probes for turns: only known events, exactly one end, cancellation in time, and an idle session.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::look;
use super::stand::{Said, Stand};
use crate::run::case::Blocked;
use agentproto_manifest::views::Capabilities;
use agentproto_runtime::arm::adapter::ENDED_AGAIN;
use agentproto_runtime::event::{StopReason, StreamEvent};
use agentproto_runtime::fault::Code;

/// Time limit for the end of a canceled turn.
const CANCELLED: Duration = Duration::from_secs(1);
/// Margin for the measurement itself on a busy machine.
const AIR: Duration = Duration::from_millis(400);
/// How long a slow turn must continue on its own.
const BUSY: Duration = Duration::from_millis(300);
/// Idle limit for the test, instead of minutes.
const IDLE: Duration = Duration::from_millis(300);

/// Whether a flag of `capabilities` is declared.
fn declares(stand: &Stand<'_>, flag: impl Fn(Capabilities<'_>) -> Option<bool>) -> bool {
    let agent = stand.subject.target.bundle.agent();
    let declared = agent.and_then(|agent| agent.capabilities());
    declared.and_then(flag) == Some(true)
}

pub async fn events(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let prompt = stand.need_prompt("text")?;
    let session = stand.session(stand.wanted()).await?;
    let first = stand.turn(&session, &prompt).await?;
    // Events after the end of a turn show up in the next turn.
    let second = match stand.send(&session, &prompt) {
        Ok(mut turn) => Some(stand.follow(&mut turn).await),
        Err(fault) if fault.code == Code::TurnsSpent => None,
        Err(fault) => {
            stand.fault(&fault);
            None
        }
    };
    stand.close(&session).await;
    let lines = first.lines();
    let turns = [Some(&first), second.as_ref()];
    let turns = || turns.into_iter().flatten();
    let odd = stand.warnings(&["protocol_garbage", "protocol_violation"]);
    let violated = turns().find_map(|said| said.error().filter(|e| e.is(Code::ProtocolViolation)));
    // A second end of a turn counts as a violation of EVT-07, not EVT-01.
    let (again, violated) = match violated {
        Some(error) if error.message.starts_with(ENDED_AGAIN) => (Some(error), None),
        violated => (None, violated),
    };
    let against = violated.map(|error| error.to_string());
    let against = against.or_else(|| odd.first().map(|(message, _)| message.clone()));
    let is_odd = against.is_some();
    stand.verdict("A45-EVT-01", against, &lines);
    let again = again.map(|error| error.to_string());
    let unended = again.or_else(|| turns().find_map(not_ended));
    let failed = turns().find_map(Said::error);
    match (unended, failed) {
        (Some(what), _) => stand.broken("A45-EVT-07", what, &lines),
        (None, Some(error)) if error.is(Code::AgentExited) => {
            let what = format!("the agent exited before the end of the turn: {error}");
            stand.broken("A45-EVT-07", what, &lines);
        }
        (None, Some(error)) => {
            stand.open("A45-EVT-07", Blocked::NotVerified(error.to_string()));
        }
        (None, None) if is_odd => {
            let why = "the turn contained output that is not part of the protocol".to_owned();
            stand.open("A45-EVT-07", Blocked::NotVerified(why));
        }
        (None, None) => stand.met("A45-EVT-07", &lines),
    }
    let chunks = first.count(|event| matches!(event, StreamEvent::TextDelta { .. }));
    if !declares(stand, |c| c.streaming()) {
        let why = "the manifest does not declare `streaming`".to_owned();
        stand.open("A45-CAP-02", Blocked::NotApplicable(why));
    } else if let Some(error) = first.error() {
        stand.open("A45-CAP-02", Blocked::NotVerified(error.to_string()));
    } else {
        let against = (chunks == 0)
            .then(|| "`streaming` is declared, but the turn had no text-delta".to_owned());
        stand.verdict("A45-CAP-02", against, &lines);
    }
    Ok(())
}

/// Checks that a turn ends with exactly one turn-end or one error.
fn not_ended(said: &Said) -> Option<String> {
    let ends = said.count(StreamEvent::is_last);
    let is_last = said.events.last().is_some_and(|(event, _)| event.is_last());
    match (said.ended, ends, is_last) {
        (true, 1, true) => None,
        (false, _, _) => Some("the turn did not end within the time limit".to_owned()),
        (true, ends, _) => Some(format!(
            "the turn had {ends} end events; it must have exactly one, as the last event"
        )),
    }
}

pub async fn tools(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let said = one_turn(stand, "tool").await?;
    let lines = said.lines();
    let mut calls = HashSet::new();
    let mut nameless = None;
    let mut stray = None;
    let mut results = 0;
    for (event, line) in &said.events {
        match event {
            StreamEvent::ToolCall { id, name, .. } => {
                if id.is_empty() || name.is_empty() {
                    nameless = Some(*line);
                }
                calls.insert(id.clone());
            }
            StreamEvent::ToolResult { id, .. } => {
                results += 1;
                if !calls.contains(id) {
                    stray = Some((id.clone(), *line));
                }
            }
            _ => {}
        }
    }
    let declared = declares(stand, |c| c.tool_calls());
    claim(
        stand,
        "A45-CAP-03",
        "tool_calls",
        "tool-call",
        declared,
        !calls.is_empty(),
        &said,
    );
    if calls.is_empty() {
        let why = "the agent did not call a tool".to_owned();
        stand.open("A45-EVT-03", Blocked::NotVerified(why));
    } else {
        let against = nameless.map(|_| "a tool-call has no id or no name".to_owned());
        stand.verdict(
            "A45-EVT-03",
            against,
            &nameless.map_or(lines.clone(), |l| vec![l]),
        );
    }
    if results == 0 {
        let why = "the agent sent no tool-result".to_owned();
        stand.open("A45-EVT-04", Blocked::NotVerified(why));
    } else {
        let against = stray
            .as_ref()
            .map(|(id, _)| format!("the tool-result `{id}` does not belong to a tool-call"));
        stand.verdict(
            "A45-EVT-04",
            against,
            &stray.map_or(lines, |(_, l)| vec![l]),
        );
    }
    Ok(())
}

pub async fn questions(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let said = one_turn(stand, "permission").await?;
    let asked: Vec<_> = said
        .events
        .iter()
        .filter_map(|(event, line)| match event {
            StreamEvent::AgentPrompt { id, message, .. } => {
                Some((id.is_empty() || message.is_empty(), *line))
            }
            _ => None,
        })
        .collect();
    let declared = declares(stand, |c| c.bidirectional());
    claim(
        stand,
        "A45-CAP-08",
        "bidirectional",
        "agent-prompt",
        declared,
        !asked.is_empty(),
        &said,
    );
    match asked.first() {
        None => {
            let why = "the agent did not ask a question".to_owned();
            stand.open("A45-EVT-06", Blocked::NotVerified(why));
        }
        Some((_, line)) => {
            let blank = asked.iter().any(|(blank, _)| *blank);
            let against = blank.then(|| "an agent-prompt has no id or no message".to_owned());
            stand.verdict("A45-EVT-06", against, &[*line]);
        }
    }
    Ok(())
}

async fn one_turn(stand: &mut Stand<'_>, key: &str) -> Result<Said, Blocked> {
    let prompt = stand.need_prompt(key)?;
    let session = stand.session(stand.wanted()).await?;
    let said = stand.turn(&session, &prompt).await?;
    stand.close(&session).await;
    match said.error() {
        Some(error) => Err(Blocked::NotVerified(format!("the turn failed: {error}"))),
        None => Ok(said),
    }
}

/// Checks a declared capability: it must be used. If it is used without being declared, that is a
/// warning.
fn claim(
    stand: &mut Stand<'_>,
    id: &str,
    flag: &str,
    event: &str,
    declared: bool,
    shown: bool,
    said: &Said,
) {
    let lines = said.lines();
    match (declared, shown) {
        (true, true) => stand.met(id, &lines),
        (true, false) => {
            let what = format!("`{flag}` is declared, but the prompt for it caused no {event}");
            stand.broken(id, what, &lines);
        }
        (false, true) => {
            let what =
                format!("the agent sent a {event}, but the manifest does not declare `{flag}`");
            stand.doubtful(id, what, &lines);
        }
        (false, false) => {
            let why = format!("the manifest does not declare `{flag}`");
            stand.open(id, Blocked::NotApplicable(why));
        }
    }
}

pub async fn cancel(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let slow = stand.need_prompt("slow")?;
    let session = stand.session(stand.wanted()).await?;
    let mut turn = stand
        .send(&session, &slow)
        .map_err(|fault| stand.refused(&fault))?;
    let mut until = Instant::now() + stand.setting.timeout;
    let mut said = Said::default();
    // From its first event on, the turn must stay busy for a while. Otherwise the cancel would be
    // too late.
    while let Ok(Some(event)) = timeout_at(until, turn.next()).await {
        if said.events.is_empty() {
            until = Instant::now() + BUSY;
        }
        stand.heard(&mut said, event);
    }
    if said.count(StreamEvent::is_last) > 0 || said.events.is_empty() {
        stand.close(&session).await;
        let why = "the slow turn ended before it could be canceled, or produced no event within \
                   the time limit";
        return Err(Blocked::NotVerified(why.to_owned()));
    }
    stand.played.waits += BUSY;
    let asked = Instant::now();
    let line = stand.note(&json!({"cancel": true}));
    session
        .cancel()
        .await
        .map_err(|fault| stand.refused(&fault))?;
    let rest = stand.follow(&mut turn).await;
    let took = asked.elapsed();
    let mut lines = vec![line];
    lines.extend(rest.lines());
    let reason = rest.events.iter().find_map(|(event, _)| match event {
        StreamEvent::TurnEnd { reason } => Some(*reason),
        _ => None,
    });
    let against = match reason {
        None => Some(match rest.error() {
            Some(error) => format!("a canceled turn ended with an error: {error}"),
            None => "a canceled turn did not end".to_owned(),
        }),
        Some(StopReason::Cancelled) if took > CANCELLED + AIR => Some(format!(
            "a canceled turn ended only after {} ms",
            took.as_millis()
        )),
        Some(StopReason::Cancelled) => None,
        Some(other) => Some(format!("a canceled turn ended with {other:?}")),
    };
    let against = match against {
        Some(against) => Some(against),
        // The runtime ends a turn whatever the agent does. The next turn shows whether the agent
        // has also ended it.
        None => deaf(stand, &session, &mut lines).await,
    };
    stand.verdict("A45-API-03", against, &lines);
    stand.close(&session).await;
    Ok(())
}

/// Whether the agent is still busy with the canceled turn, as the next prompt shows.
async fn deaf(
    stand: &mut Stand<'_>,
    session: &agentproto_runtime::session::Session,
    lines: &mut Vec<u64>,
) -> Option<String> {
    let text = stand.prompt("text")?;
    let until = Instant::now() + CANCELLED;
    loop {
        let busy = match stand.send(session, &text) {
            Ok(mut turn) => {
                let next = stand.follow(&mut turn).await;
                lines.extend(next.lines());
                let error = next.error().filter(|error| error.is(Code::SessionBusy));
                error.map(|error| error.to_string())
            }
            Err(fault) if fault.code == Code::SessionBusy => Some(fault.message),
            Err(_) => None,
        };
        let message = busy?;
        if Instant::now() >= until {
            return Some(format!("the agent continued the canceled turn: {message}"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub async fn idle(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let mut agent = stand
        .load(stand.wanted())
        .map_err(|fault| stand.refused(&fault))?;
    agent.idle_at_most(IDLE);
    let session = stand.open_session(&agent, None).await?;
    let until = Instant::now() + IDLE + stand.setting.timeout.max(Duration::from_secs(9));
    stand.played.waits += IDLE;
    let gone = || look::all(&stand.subject.marker).is_none_or(|left| left.is_empty());
    while !(session.is_closed() && gone()) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told = stand.warnings(&["session_idle"]);
    let lines: Vec<u64> = told.iter().map(|(_, line)| *line).collect();
    let against = if !session.is_closed() {
        Some("an idle session was not closed".to_owned())
    } else if !look::all(&stand.subject.marker).is_none_or(|left| left.is_empty()) {
        Some("the agent of an idle session is still running".to_owned())
    } else if session.send("hello").is_ok() {
        Some("a session that was closed because it was idle accepted another turn".to_owned())
    } else {
        None
    };
    stand.verdict("A45-SESS-02", against, &lines);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_exactly_one_end() {
        let end = || StreamEvent::TurnEnd {
            reason: StopReason::EndTurn,
        };
        let text = || StreamEvent::TextDelta {
            text: "x".to_owned(),
        };
        let said = |events: Vec<StreamEvent>, ended| Said {
            events: events.into_iter().map(|e| (e, 1)).collect(),
            text: String::new(),
            ended,
        };
        assert_eq!(not_ended(&said(vec![text(), end()], true)), None);
        assert!(not_ended(&said(vec![end(), text()], true)).is_some());
        assert!(not_ended(&said(vec![end(), end()], true)).is_some());
        assert!(not_ended(&said(vec![text()], true)).is_some());
        assert!(not_ended(&said(vec![text()], false)).is_some());
    }
}
