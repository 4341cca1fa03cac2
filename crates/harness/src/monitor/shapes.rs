//! Checks the shape of everything that the agent sends, and reports each error under the
//! requirement that covers it.

use serde_json::Value;

use super::owner::owner;
use super::view::{call, items, result};
use super::{ConversationState, LineView, Monitor, MonitorNotes};
use crate::shape::{self, ShapeError, ShapeErrorKind, Side};

#[derive(Default)]
pub struct ShapeMonitor;

impl Monitor for ShapeMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        if let Some((method, params)) = call(view) {
            if matches!(shape::side(method), Some(Side::Client | Side::Both)) {
                check(method, params, "/params", &[view.line.number], notes);
            }
        } else if let Some((request, result)) = result(view)
            && shape::side(&request.method) == Some(Side::Agent)
            && request.method != "session/cancel"
            && state.agent_offers(&request.method)
        {
            let lines = [view.line.number, request.line];
            check(&request.method, result, "/result", &lines, notes);
        }
    }
}

fn check(method: &str, value: &Value, root: &str, lines: &[u64], notes: &mut MonitorNotes) {
    let Some(shape) = shape::of(method) else {
        return;
    };
    // The documentation answers with null where the schema has an object.
    if method == "session/load" && value.is_null() {
        return;
    }
    let errors = shape.check(value);
    let mut broken = Vec::new();
    for error in &errors {
        let Some(requirement) = requirement(method, error, value) else {
            continue;
        };
        broken.push(requirement);
        let what = format!("{method}: {}", error.message(root));
        let at = format!("{root}{}", error.at);
        match is_warning(method, error, value) {
            true => notes.suspicion_at(requirement, at, what, lines),
            false => notes.violation_at(requirement, at, what, lines),
        }
    }
    for requirement in touched(method, value) {
        if !broken.contains(&requirement) {
            notes.pass(requirement);
        }
    }
}

fn requirement(method: &str, error: &ShapeError, value: &Value) -> Option<&'static str> {
    match error.kind {
        ShapeErrorKind::Case { .. } => Some("TR-22"),
        ShapeErrorKind::DraftVariant => Some("UP-01"),
        ShapeErrorKind::Unknown | ShapeErrorKind::Draft | ShapeErrorKind::FormerDraft => {
            unknown(method, error, value)
        }
        _ => owner(method, error, value),
    }
}

/// The requirement for a key that the protocol does not define.
fn unknown(method: &str, error: &ShapeError, value: &Value) -> Option<&'static str> {
    let variant = value
        .pointer("/update/sessionUpdate")
        .and_then(Value::as_str);
    match error.key() {
        // The content of a form is checked as a form.
        _ if error.is_in("/requestedSchema") => None,
        // The correct key is missing, which is already reported.
        "modeId" if variant == Some("current_mode_update") => None,
        // Reported where the two scopes are compared.
        "sessionId" | "requestId" | "toolCallId" if method == "elicitation/create" => None,
        "command" if method == "initialize" && error.is_in("/authMethods") => None,
        // Members of a login of an unknown type. AU-03 reports the type.
        _ if method == "initialize" && is_in_unknown_login(error, value) => None,
        _ if method == "initialize" && error.is_in("/agentCapabilities") => Some("EX-07"),
        _ => Some("EX-01"),
    }
}

fn is_in_unknown_login(error: &ShapeError, value: &Value) -> bool {
    let Some((index, _)) = error
        .at
        .strip_prefix("/authMethods/")
        .and_then(|rest| rest.split_once('/'))
    else {
        return false;
    };
    let kind = value.pointer(&format!("/authMethods/{index}/type"));
    let kind = kind.and_then(Value::as_str);
    kind.is_some_and(|kind| !["agent", "terminal"].contains(&kind))
}

/// Errors that are at most a warning: drafts, and null instead of an empty object.
fn is_warning(method: &str, error: &ShapeError, value: &Value) -> bool {
    let empty = [
        "authenticate",
        "logout",
        "session/delete",
        "session/resume",
        "session/set_mode",
    ];
    let is_null = value.is_null() && error.at.is_empty() && empty.contains(&method);
    matches!(
        error.kind,
        ShapeErrorKind::Draft | ShapeErrorKind::FormerDraft | ShapeErrorKind::DraftVariant
    ) || is_null
}

/// The requirements that this message could have violated by its shape.
fn touched(method: &str, value: &Value) -> Vec<&'static str> {
    let mut touched = vec!["EX-01", "TR-22"];
    let has = |pointer: &str| value.pointer(pointer).is_some_and(|v| !v.is_null());
    match method {
        "initialize" => {
            touched.extend(["IN-01", "IN-08"]);
            touched.extend(has("/agentCapabilities").then_some("EX-07"));
        }
        "session/new" => touched.push("SE-03"),
        "session/close" => touched.push("CL-02"),
        "session/list" => {
            touched.push("LI-01");
            let is_empty = value.pointer("/sessions") == Some(&Value::Array(Vec::new()));
            touched.push(if is_empty { "LI-03" } else { "LI-02" });
        }
        "session/prompt" if has("/stopReason") => touched.extend(["PT-01", "PT-02"]),
        "session/request_permission" => touched.extend(["PE-01", "PE-02"]),
        "fs/read_text_file" => {
            touched.extend((has("/line") || has("/limit")).then_some("FS-04"));
        }
        "elicitation/create" => {
            touched.push("EL-02");
            touched.extend(has("/requestedSchema").then_some("EL-03"));
        }
        "session/update" => {
            touched.push("UP-01");
            touched.extend(touched_by_update(value));
        }
        _ => {}
    }
    touched
}

fn touched_by_update(params: &Value) -> Vec<&'static str> {
    let Some(update) = params.get("update") else {
        return Vec::new();
    };
    let has = |key: &str| update.get(key).is_some_and(|v| !v.is_null());
    let is_tool = has("kind") || has("status");
    match update.get("sessionUpdate").and_then(Value::as_str) {
        Some("tool_call") if is_tool => vec!["TC-01", "TC-04"],
        Some("tool_call") => vec!["TC-01"],
        Some("tool_call_update") if is_tool => vec!["TC-04"],
        Some("plan") if !items(update, "entries").is_empty() => vec!["PL-01"],
        Some("available_commands_update") if !items(update, "availableCommands").is_empty() => {
            vec!["SL-01"]
        }
        Some("usage_update") => vec!["PT-19"],
        _ => Vec::new(),
    }
}
