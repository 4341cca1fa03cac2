//! Helpers with which monitors look at a line.

use serde_json::Value;

use super::{LineView, RequestRecord};
use agentproto_wire::{Direction, MessageKind};

/// A request or notification of the agent: method and params.
pub fn call<'a>(view: &LineView<'a>) -> Option<(&'a str, &'a Value)> {
    if view.line.direction != Direction::FromAgent {
        return None;
    }
    match &view.envelope?.kind {
        MessageKind::Request { method, .. } | MessageKind::Notification { method } => {
            Some((method, view.json?.get("params").unwrap_or(&Value::Null)))
        }
        _ => None,
    }
}

/// A `session/update`: its session id (empty if missing), its kind, and the update itself.
pub fn update<'a>(view: &LineView<'a>) -> Option<(&'a str, &'a str, &'a Value)> {
    let (method, params) = call(view)?;
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
pub fn result<'a>(view: &LineView<'a>) -> Option<(&'a RequestRecord, &'a Value)> {
    let request = view.answers?;
    let is_answer = view.line.direction == Direction::FromAgent;
    let is_error = matches!(
        view.envelope?.kind,
        MessageKind::Response { is_error: true, .. }
    );
    if !is_answer || is_error || request.answers >= request.expected {
        return None;
    }
    Some((request, view.json?.get("result")?))
}

/// The client's first result for a request of the agent, with the request.
pub fn reply<'a>(view: &LineView<'a>) -> Option<(&'a RequestRecord, &'a Value)> {
    let request = view.answers?;
    if view.line.direction != Direction::ToAgent || request.answers > 0 {
        return None;
    }
    Some((request, view.json?.get("result")?))
}

/// A request or notification of the client.
pub fn ours<'a>(view: &LineView<'a>) -> Option<(&'a str, &'a Value)> {
    if view.line.direction != Direction::ToAgent {
        return None;
    }
    match &view.envelope?.kind {
        MessageKind::Request { method, .. } | MessageKind::Notification { method } => {
            Some((method, view.json?.get("params").unwrap_or(&Value::Null)))
        }
        _ => None,
    }
}

/// The response that ends a turn: session and result. An error also ends it, with null.
pub fn turn_end<'a>(view: &LineView<'a>) -> Option<(&'a str, &'a Value)> {
    let request = view.answers?;
    let is_first = request.answers < request.expected;
    if view.line.direction != Direction::FromAgent
        || request.method != "session/prompt"
        || !is_first
    {
        return None;
    }
    let result = view.json?.get("result").unwrap_or(&Value::Null);
    Some((text(&request.params, "sessionId"), result))
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
    let mut view = std::collections::HashSet::new();
    let mut items = items;
    items.find(|item| !view.insert(*item))
}
