//! Probes for turns: only known events, exactly one end, cancellation in time, and an idle session.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::context::{ProbeContext, TurnEvents};
use super::process_info;
use crate::run::case::NoVerdict;
use agentproto_manifest::views::Capabilities;
use agentproto_runtime::arm::adapter::UNEXPECTED_TURN_END;
use agentproto_runtime::error::Code;
use agentproto_runtime::event::{StopReason, StreamEvent};

/// Time limit for the end of a canceled turn.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);
/// Margin for the measurement itself on a busy machine.
const MARGIN: Duration = Duration::from_millis(400);
/// How long a slow turn must continue on its own.
const BUSY_TIME: Duration = Duration::from_millis(300);
/// Idle limit for the test, instead of minutes.
const IDLE_LIMIT: Duration = Duration::from_millis(300);

/// Whether a flag of `capabilities` is declared.
fn declares(probe: &ProbeContext<'_>, flag: impl Fn(Capabilities<'_>) -> Option<bool>) -> bool {
    let agent = probe.subject.target.bundle.agent();
    let declared = agent.and_then(|agent| agent.capabilities());
    declared.and_then(flag) == Some(true)
}

pub async fn events(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let prompt = probe.need_prompt("text")?;
    let session = probe.session(probe.choices()).await?;
    let first = probe.turn(&session, &prompt).await?;
    // Events after the end of a turn show up in the next turn.
    let second = match probe.send(&session, &prompt) {
        Ok(mut turn) => Some(probe.follow(&mut turn).await),
        Err(error) if error.code == Code::TurnsSpent => None,
        Err(error) => {
            probe.note_error(&error);
            None
        }
    };
    probe.close(&session).await;
    let lines = first.lines();
    let turns = [Some(&first), second.as_ref()];
    let turns = || turns.into_iter().flatten();
    let garbage = probe.warnings(&["protocol_garbage", "protocol_violation"]);
    let violated = turns().find_map(|turn_events| {
        turn_events
            .error()
            .filter(|e| e.is(Code::ProtocolViolation))
    });
    // A second end of a turn counts as a violation of EVT-07, not EVT-01.
    let (again, violated) = match violated {
        Some(error) if error.message.starts_with(UNEXPECTED_TURN_END) => (Some(error), None),
        violated => (None, violated),
    };
    let against = violated.map(|error| error.to_string());
    let against = against.or_else(|| garbage.first().map(|(message, _)| message.clone()));
    let has_garbage = against.is_some();
    probe.verdict("A45-EVT-01", against, &lines);
    let again = again.map(|error| error.to_string());
    let missing_end = again.or_else(|| turns().find_map(not_ended));
    let failed = turns().find_map(TurnEvents::error);
    match (missing_end, failed) {
        (Some(what), _) => probe.violation("A45-EVT-07", what, &lines),
        (None, Some(error)) if error.is(Code::AgentExited) => {
            let what = format!("the agent exited before the end of the turn: {error}");
            probe.violation("A45-EVT-07", what, &lines);
        }
        (None, Some(error)) => {
            probe.undecided("A45-EVT-07", NoVerdict::NotVerified(error.to_string()));
        }
        (None, None) if has_garbage => {
            let why = "the turn contained output that is not part of the protocol".to_owned();
            probe.undecided("A45-EVT-07", NoVerdict::NotVerified(why));
        }
        (None, None) => probe.pass("A45-EVT-07", &lines),
    }
    let chunks = first.count(|event| matches!(event, StreamEvent::TextDelta { .. }));
    if !declares(probe, |c| c.streaming()) {
        let why = "the manifest does not declare `streaming`".to_owned();
        probe.undecided("A45-CAP-02", NoVerdict::NotApplicable(why));
    } else if let Some(error) = first.error() {
        probe.undecided("A45-CAP-02", NoVerdict::NotVerified(error.to_string()));
    } else {
        let against = (chunks == 0)
            .then(|| "`streaming` is declared, but the turn had no text-delta".to_owned());
        probe.verdict("A45-CAP-02", against, &lines);
    }
    Ok(())
}

/// Checks that a turn ends with exactly one turn-end or one error.
fn not_ended(turn_events: &TurnEvents) -> Option<String> {
    let ends = turn_events.count(StreamEvent::is_last);
    let is_last = turn_events
        .events
        .last()
        .is_some_and(|(event, _)| event.is_last());
    match (turn_events.ended, ends, is_last) {
        (true, 1, true) => None,
        (false, _, _) => Some("the turn did not end within the time limit".to_owned()),
        (true, ends, _) => Some(format!(
            "the turn had {ends} end events; it must have exactly one, as the last event"
        )),
    }
}

pub async fn tools(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let turn_events = one_turn(probe, "tool").await?;
    let lines = turn_events.lines();
    let mut calls = HashSet::new();
    let mut incomplete = None;
    let mut unmatched = None;
    let mut results = 0;
    for (event, line) in &turn_events.events {
        match event {
            StreamEvent::ToolCall { id, name, .. } => {
                if id.is_empty() || name.is_empty() {
                    incomplete = Some(*line);
                }
                calls.insert(id.clone());
            }
            StreamEvent::ToolResult { id, .. } => {
                results += 1;
                if !calls.contains(id) {
                    unmatched = Some((id.clone(), *line));
                }
            }
            _ => {}
        }
    }
    let declared = declares(probe, |c| c.tool_calls());
    claim(
        probe,
        "A45-CAP-03",
        "tool_calls",
        "tool-call",
        declared,
        !calls.is_empty(),
        &turn_events,
    );
    if calls.is_empty() {
        let why = "the agent did not call a tool".to_owned();
        probe.undecided("A45-EVT-03", NoVerdict::NotVerified(why));
    } else {
        let against = incomplete.map(|_| "a tool-call has no id or no name".to_owned());
        probe.verdict(
            "A45-EVT-03",
            against,
            &incomplete.map_or(lines.clone(), |l| vec![l]),
        );
    }
    if results == 0 {
        let why = "the agent sent no tool-result".to_owned();
        probe.undecided("A45-EVT-04", NoVerdict::NotVerified(why));
    } else {
        let against = unmatched
            .as_ref()
            .map(|(id, _)| format!("the tool-result `{id}` does not belong to a tool-call"));
        probe.verdict(
            "A45-EVT-04",
            against,
            &unmatched.map_or(lines, |(_, l)| vec![l]),
        );
    }
    Ok(())
}

pub async fn permission_prompts(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let turn_events = one_turn(probe, "permission").await?;
    let prompts: Vec<_> = turn_events
        .events
        .iter()
        .filter_map(|(event, line)| match event {
            StreamEvent::AgentPrompt { id, message, .. } => {
                Some((id.is_empty() || message.is_empty(), *line))
            }
            _ => None,
        })
        .collect();
    let declared = declares(probe, |c| c.bidirectional());
    claim(
        probe,
        "A45-CAP-08",
        "bidirectional",
        "agent-prompt",
        declared,
        !prompts.is_empty(),
        &turn_events,
    );
    match prompts.first() {
        None => {
            let why = "the agent did not ask a question".to_owned();
            probe.undecided("A45-EVT-06", NoVerdict::NotVerified(why));
        }
        Some((_, line)) => {
            let blank = prompts.iter().any(|(blank, _)| *blank);
            let against = blank.then(|| "an agent-prompt has no id or no message".to_owned());
            probe.verdict("A45-EVT-06", against, &[*line]);
        }
    }
    Ok(())
}

async fn one_turn(probe: &mut ProbeContext<'_>, key: &str) -> Result<TurnEvents, NoVerdict> {
    let prompt = probe.need_prompt(key)?;
    let session = probe.session(probe.choices()).await?;
    let turn_events = probe.turn(&session, &prompt).await?;
    probe.close(&session).await;
    match turn_events.error() {
        Some(error) => Err(NoVerdict::NotVerified(format!("the turn failed: {error}"))),
        None => Ok(turn_events),
    }
}

/// Checks a declared capability: it must be used. If it is used without being declared, that is a
/// warning.
fn claim(
    probe: &mut ProbeContext<'_>,
    id: &str,
    flag: &str,
    event: &str,
    declared: bool,
    shown: bool,
    turn_events: &TurnEvents,
) {
    let lines = turn_events.lines();
    match (declared, shown) {
        (true, true) => probe.pass(id, &lines),
        (true, false) => {
            let what = format!("`{flag}` is declared, but the prompt for it caused no {event}");
            probe.violation(id, what, &lines);
        }
        (false, true) => {
            let what =
                format!("the agent sent a {event}, but the manifest does not declare `{flag}`");
            probe.suspicion(id, what, &lines);
        }
        (false, false) => {
            let why = format!("the manifest does not declare `{flag}`");
            probe.undecided(id, NoVerdict::NotApplicable(why));
        }
    }
}

pub async fn cancel(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let slow = probe.need_prompt("slow")?;
    let session = probe.session(probe.choices()).await?;
    let mut turn = probe
        .send(&session, &slow)
        .map_err(|error| probe.no_verdict_for(&error))?;
    let mut until = Instant::now() + probe.config.timeout;
    let mut turn_events = TurnEvents::default();
    // From its first event on, the turn must stay busy for a while. Otherwise the cancel would be
    // too late.
    while let Ok(Some(event)) = timeout_at(until, turn.next()).await {
        if turn_events.events.is_empty() {
            until = Instant::now() + BUSY_TIME;
        }
        probe.record_event(&mut turn_events, event);
    }
    if turn_events.count(StreamEvent::is_last) > 0 || turn_events.events.is_empty() {
        probe.close(&session).await;
        let why = "the slow turn ended before it could be canceled, or produced no event within \
                   the time limit";
        return Err(NoVerdict::NotVerified(why.to_owned()));
    }
    probe.outcome.waits += BUSY_TIME;
    let cancelled_at = Instant::now();
    let line = probe.note(&json!({"cancel": true}));
    session
        .cancel()
        .await
        .map_err(|error| probe.no_verdict_for(&error))?;
    let rest = probe.follow(&mut turn).await;
    let took = cancelled_at.elapsed();
    let mut lines = vec![line];
    lines.extend(rest.lines());
    let reason = rest.events.iter().find_map(|(event, _)| match event {
        StreamEvent::TurnEnd { reason, .. } => Some(*reason),
        _ => None,
    });
    let against = match reason {
        None => Some(match rest.error() {
            Some(error) => format!("a canceled turn ended with an error: {error}"),
            None => "a canceled turn did not end".to_owned(),
        }),
        Some(StopReason::Cancelled) if took > CANCEL_LIMIT + MARGIN => Some(format!(
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
        None => still_busy(probe, &session, &mut lines).await,
    };
    probe.verdict("A45-API-03", against, &lines);
    probe.close(&session).await;
    Ok(())
}

/// Whether the agent is still busy with the canceled turn, as the next prompt shows.
async fn still_busy(
    probe: &mut ProbeContext<'_>,
    session: &agentproto_runtime::session::Session,
    lines: &mut Vec<u64>,
) -> Option<String> {
    let text = probe.prompt("text")?;
    let until = Instant::now() + CANCEL_LIMIT;
    loop {
        let busy = match probe.send(session, &text) {
            Ok(mut turn) => {
                let next = probe.follow(&mut turn).await;
                lines.extend(next.lines());
                let error = next.error().filter(|error| error.is(Code::SessionBusy));
                error.map(|error| error.to_string())
            }
            Err(error) if error.code == Code::SessionBusy => Some(error.message),
            Err(_) => None,
        };
        let message = busy?;
        if Instant::now() >= until {
            return Some(format!("the agent continued the canceled turn: {message}"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub async fn idle(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let mut agent = probe
        .load(probe.choices())
        .map_err(|error| probe.no_verdict_for(&error))?;
    agent.set_idle_limit(IDLE_LIMIT);
    let session = probe.open_session(&agent, None).await?;
    let until = Instant::now() + IDLE_LIMIT + probe.config.timeout.max(Duration::from_secs(9));
    probe.outcome.waits += IDLE_LIMIT;
    let all_ended = || process_info::all(&probe.subject.marker).is_none_or(|left| left.is_empty());
    while !(session.is_closed() && all_ended()) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let warnings = probe.warnings(&["session_idle"]);
    let lines: Vec<u64> = warnings.iter().map(|(_, line)| *line).collect();
    let against = if !session.is_closed() {
        Some("an idle session was not closed".to_owned())
    } else if !process_info::all(&probe.subject.marker).is_none_or(|left| left.is_empty()) {
        Some("the agent of an idle session is still running".to_owned())
    } else if session.send("hello").is_ok() {
        Some("a session that was closed because it was idle accepted another turn".to_owned())
    } else {
        None
    };
    probe.verdict("A45-SESS-02", against, &lines);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_exactly_one_end() {
        let end = || StreamEvent::turn_end(StopReason::EndTurn);
        let text = || StreamEvent::TextDelta {
            text: "x".to_owned(),
        };
        let turn_events = |events: Vec<StreamEvent>, ended| TurnEvents {
            events: events.into_iter().map(|e| (e, 1)).collect(),
            text: String::new(),
            ended,
        };
        assert_eq!(not_ended(&turn_events(vec![text(), end()], true)), None);
        assert!(not_ended(&turn_events(vec![end(), text()], true)).is_some());
        assert!(not_ended(&turn_events(vec![end(), end()], true)).is_some());
        assert!(not_ended(&turn_events(vec![text()], true)).is_some());
        assert!(not_ended(&turn_events(vec![text()], false)).is_some());
    }
}
