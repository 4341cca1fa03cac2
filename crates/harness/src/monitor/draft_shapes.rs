//! The shape of every message of the version 2 draft: V2-22, V2-23, V2-24, V2-25, V2-31, and V2-10
//! for the kinds of updates.

use serde_json::Value;

use super::view::{call, result, text};
use super::{ConversationState, Ending, LineView, Monitor, MonitorNotes};
use crate::shape::{ShapeError, ShapeErrorKind, draft};
use agentproto_wire::{Direction, MessageKind};

#[derive(Default)]
pub struct DraftShapeMonitor {
    /// Whether work has ended while the client offered no elicitation.
    has_worked_without: bool,
}

impl Monitor for DraftShapeMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let number = view.line.number;
        if let Some((method, params)) = call(view) {
            if is_allowed(method, number, notes) {
                check(method, params, "/params", &[number], notes);
            }
            if method == "elicitation/create" {
                elicitation(params, number, state, notes);
            }
            let is_idle = text(params.get("update").unwrap_or(params), "state") == "idle";
            let offers = state.client.pointer("/capabilities/elicitation");
            self.has_worked_without |= is_idle && offers.is_none_or(Value::is_null);
        } else if let Some((request, result)) = result(view) {
            if draft::is_called_by_agent(&request.method) == Some(false) {
                let lines = [number, request.line];
                check(&request.method, result, "/result", &lines, notes);
            }
        } else if view.line.direction == Direction::FromAgent
            && let Some(envelope) = view.envelope
            && matches!(envelope.kind, MessageKind::Response { is_error: true, .. })
        {
            error_text(view.json, number, notes);
        }
    }

    fn on_end(&mut self, _: &Ending, _: &ConversationState, notes: &mut MonitorNotes) {
        if self.has_worked_without {
            notes.pass("V2-25");
        }
    }
}

/// Whether the agent may call a method. Reports it under V2-24 if not.
fn is_allowed(method: &str, number: u64, notes: &mut MonitorNotes) -> bool {
    let what = match draft::is_called_by_agent(method) {
        Some(true) => {
            notes.pass("V2-24");
            return true;
        }
        None if method.starts_with('_') => {
            notes.pass("V2-24");
            return false;
        }
        Some(false) => {
            format!("the agent calls `{method}`, which is a method of agents, not of clients")
        }
        None => {
            format!("`{method}` is not a method of the draft; custom methods must start with `_`")
        }
    };
    notes.violation("V2-24", what, &[number]);
    false
}

fn elicitation(params: &Value, number: u64, state: &ConversationState, notes: &mut MonitorNotes) {
    let mode = text(params, "mode");
    let offers = state.client.pointer("/capabilities/elicitation");
    match offers.and_then(|offers| offers.get(mode)) {
        Some(Value::Object(_)) => notes.pass("V2-25"),
        _ => {
            let what = format!(
                "`elicitation/create` uses the mode \"{mode}\", which the client does not offer"
            );
            let lines: Vec<u64> = [Some(number), state.started]
                .into_iter()
                .flatten()
                .collect();
            notes.violation_at("V2-25", "/params/mode", what, &lines);
        }
    }
}

/// Checks the text of an error: a short sentence on one line.
fn error_text(json: Option<&Value>, number: u64, notes: &mut MonitorNotes) {
    let message = json.and_then(|json| json.pointer("/error/message"));
    let Some(message) = message.and_then(Value::as_str) else {
        return;
    };
    let what = match message {
        blank if blank.trim().is_empty() => "the message of an error is empty",
        long if long.contains(['\n', '\r']) => "the message of an error has several lines",
        _ => return notes.pass("V2-28"),
    };
    notes.violation_at("V2-28", "/error/message", what, &[number]);
}

fn check(method: &str, value: &Value, root: &str, lines: &[u64], notes: &mut MonitorNotes) {
    let Some(shape) = draft::of(method) else {
        return;
    };
    // The published examples answer with null where the schema has an object without fields.
    let is_empty = [
        "auth/login",
        "auth/logout",
        "session/close",
        "session/delete",
    ];
    if value.is_null() && is_empty.contains(&method) {
        return;
    }
    let mut broken = Vec::new();
    for error in shape.check(value) {
        let Some(requirement) = requirement(method, &error, value) else {
            continue;
        };
        broken.push(requirement);
        let what = format!("{method}: {}", error.message(root));
        let at = format!("{root}{}", error.at);
        notes.violation_at(requirement, at, what, lines);
    }
    let mut touched = vec!["V2-22", "V2-23"];
    if method == "initialize" && value.get("capabilities").is_some() {
        touched.push("V2-31");
    }
    if method == "session/update" {
        touched.push("V2-10");
    }
    for requirement in touched {
        if !broken.contains(&requirement) {
            notes.pass(requirement);
        }
    }
}

/// The requirement for an error. `None` if another requirement reports it.
fn requirement(method: &str, error: &ShapeError, value: &Value) -> Option<&'static str> {
    let update = value
        .pointer("/update/sessionUpdate")
        .and_then(Value::as_str);
    match (method, error.key()) {
        // V2-01, V2-04, V2-08 and V2-14.
        ("initialize", _) if error.is_in("/info") => return None,
        ("session/prompt", "messageId" | "stopReason") => return None,
        ("session/update", "messageId") => return None,
        ("session/update", _) if update == Some("plan_update") && error.is_in("/update/plan") => {
            return None;
        }
        // V2-16 compares the names.
        _ => {}
    }
    match &error.kind {
        ShapeErrorKind::Draft | ShapeErrorKind::DraftVariant => None,
        ShapeErrorKind::Unknown if method == "initialize" && error.is_in("/capabilities") => {
            Some("V2-31")
        }
        ShapeErrorKind::Unknown => Some("V2-23"),
        // The values of enums are open, but only for names with an underscore.
        ShapeErrorKind::Value { .. } if is_tag(error.key()) => {
            let found = value.pointer(&error.at).and_then(Value::as_str);
            let is_custom = found.is_some_and(|word| word.starts_with('_'));
            let is_checked_here = error.key() == "sessionUpdate" || error.is_in("/update/content");
            (is_checked_here && !is_custom).then_some("V2-10")
        }
        _ => Some("V2-22"),
    }
}

/// Whether a key names a variant.
fn is_tag(key: &str) -> bool {
    matches!(key, "sessionUpdate" | "type" | "state" | "mode")
}
