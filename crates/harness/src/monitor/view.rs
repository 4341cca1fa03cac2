//! Helpers with which monitors look at a line.

use serde_json::Value;

use super::{Asked, Seen};
use agentproto_wire::{Direction, Kind};

/// A request or notification of the agent: method and params.
pub fn call<'a>(seen: &Seen<'a>) -> Option<(&'a str, &'a Value)> {
    if seen.line.direction != Direction::FromAgent {
        return None;
    }
    match &seen.envelope?.kind {
        Kind::Request { method, .. } | Kind::Notification { method } => {
            Some((method, seen.json?.get("params").unwrap_or(&Value::Null)))
        }
        _ => None,
    }
}

/// A `session/update`: its session id (empty if missing), its kind, and the update itself.
pub fn update<'a>(seen: &Seen<'a>) -> Option<(&'a str, &'a str, &'a Value)> {
    let (method, params) = call(seen)?;
    let update = params
        .get("update")
        .filter(|_| method == "session/update")?;
    Some((
        text(params, "sessionId"),
        text(update, "sessionUpdate"),
        update,
    ))
}

/// The agent's first result for a request, with the request.
pub fn result<'a>(seen: &Seen<'a>) -> Option<(&'a Asked, &'a Value)> {
    let asked = seen.answers?;
    let is_answer = seen.line.direction == Direction::FromAgent;
    let is_error = matches!(seen.envelope?.kind, Kind::Response { is_error: true, .. });
    if !is_answer || is_error || asked.answers >= asked.expected {
        return None;
    }
    Some((asked, seen.json?.get("result")?))
}

/// The client's first result for a request of the agent, with the request.
pub fn reply<'a>(seen: &Seen<'a>) -> Option<(&'a Asked, &'a Value)> {
    let asked = seen.answers?;
    if seen.line.direction != Direction::ToAgent || asked.answers > 0 {
        return None;
    }
    Some((asked, seen.json?.get("result")?))
}

/// A request or notification of the client.
pub fn ours<'a>(seen: &Seen<'a>) -> Option<(&'a str, &'a Value)> {
    if seen.line.direction != Direction::ToAgent {
        return None;
    }
    match &seen.envelope?.kind {
        Kind::Request { method, .. } | Kind::Notification { method } => {
            Some((method, seen.json?.get("params").unwrap_or(&Value::Null)))
        }
        _ => None,
    }
}

/// The response that ends a turn: session and result. An error also ends it, with null.
pub fn turn_end<'a>(seen: &Seen<'a>) -> Option<(&'a str, &'a Value)> {
    let asked = seen.answers?;
    let is_first = asked.answers < asked.expected;
    if seen.line.direction != Direction::FromAgent || asked.method != "session/prompt" || !is_first
    {
        return None;
    }
    let result = seen.json?.get("result").unwrap_or(&Value::Null);
    Some((text(&asked.params, "sessionId"), result))
}

pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Whether a path is absolute on any system, because the agent may run on another one.
pub fn is_absolute(path: &str) -> bool {
    let mut chars = path.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some('/'), ..) => true,
        (Some('\\'), Some('\\'), _) => true,
        (Some(drive), Some(':'), Some('/' | '\\')) => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

/// The first item that equals an earlier one.
pub fn repeated<'a>(items: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::HashSet::new();
    let mut items = items;
    items.find(|item| !seen.insert(*item))
}
