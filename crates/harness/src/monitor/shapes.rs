//! Checks the shape of everything that the agent sends, and reports each error under the
//! requirement that covers it.

use serde_json::Value;

use super::owner::owner;
use super::view::{call, items, result};
use super::{Ledger, Monitor, Notes, Seen};
use crate::shape::{self, Defect, Fault, Side};

#[derive(Default)]
pub struct Shapes;

impl Monitor for Shapes {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        if let Some((method, params)) = call(seen) {
            if matches!(shape::side(method), Some(Side::Client | Side::Both)) {
                judge(method, params, "/params", &[seen.line.number], notes);
            }
        } else if let Some((asked, result)) = result(seen)
            && shape::side(&asked.method) == Some(Side::Agent)
            && asked.method != "session/cancel"
            && ledger.agent_offers(&asked.method)
        {
            let lines = [seen.line.number, asked.line];
            judge(&asked.method, result, "/result", &lines, notes);
        }
    }
}

fn judge(method: &str, value: &Value, root: &str, lines: &[u64], notes: &mut Notes) {
    let Some(shape) = shape::of(method) else {
        return;
    };
    // The documentation answers with null where the schema has an object.
    if method == "session/load" && value.is_null() {
        return;
    }
    let defects = shape.judge(value);
    let mut broken = Vec::new();
    for defect in &defects {
        let Some(statement) = statement(method, defect, value) else {
            continue;
        };
        broken.push(statement);
        let what = format!("{method}: {}", defect.message(root));
        let at = format!("{root}{}", defect.at);
        match is_warning(method, defect, value) {
            true => notes.doubtful_at(statement, at, what, lines),
            false => notes.broken_at(statement, at, what, lines),
        }
    }
    for statement in touched(method, value) {
        if !broken.contains(&statement) {
            notes.held(statement);
        }
    }
}

fn statement(method: &str, defect: &Defect, value: &Value) -> Option<&'static str> {
    match defect.fault {
        Fault::Case { .. } => Some("TR-22"),
        Fault::DraftVariant => Some("UP-01"),
        Fault::Unknown | Fault::Draft => unknown(method, defect, value),
        _ => owner(method, defect, value),
    }
}

/// The requirement for a key that the protocol does not define.
fn unknown(method: &str, defect: &Defect, value: &Value) -> Option<&'static str> {
    let variant = value
        .pointer("/update/sessionUpdate")
        .and_then(Value::as_str);
    match defect.key() {
        // The content of a form is checked as a form.
        _ if defect.is_in("/requestedSchema") => None,
        // The correct key is missing, which is already reported.
        "modeId" if variant == Some("current_mode_update") => None,
        // Reported where the two scopes are compared.
        "sessionId" | "requestId" | "toolCallId" if method == "elicitation/create" => None,
        "command" if method == "initialize" && defect.is_in("/authMethods") => None,
        _ if method == "initialize" && defect.is_in("/agentCapabilities") => Some("EX-07"),
        _ => Some("EX-01"),
    }
}

/// Errors that are at most a warning: drafts, and null instead of an empty object.
fn is_warning(method: &str, defect: &Defect, value: &Value) -> bool {
    let empty = [
        "authenticate",
        "logout",
        "session/delete",
        "session/resume",
        "session/set_mode",
    ];
    let is_null = value.is_null() && defect.at.is_empty() && empty.contains(&method);
    matches!(defect.fault, Fault::Draft | Fault::DraftVariant) || is_null
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
