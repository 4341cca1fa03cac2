//! The response to `initialize`: IN-06, AU-01 to AU-04.

use serde_json::Value;

use super::view::{items, repeated, result, text};
use super::{ConversationState, LineView, Monitor, MonitorNotes};
use crate::shape::FORMER_AUTH_TYPES;

#[derive(Default)]
pub struct InitializeMonitor;

impl Monitor for InitializeMonitor {
    fn on_line(&mut self, view: &LineView<'_>, _: &ConversationState, notes: &mut MonitorNotes) {
        let Some((request, result)) = result(view) else {
            return;
        };
        if request.method != "initialize" || !result.is_object() {
            return;
        }
        let lines = [view.line.number, request.line];
        match result.get("agentCapabilities") {
            Some(_) => notes.pass("IN-06"),
            None => {
                let what = "the response has no `agentCapabilities`; the spec text requires them, \
                            but the schema treats them as optional";
                notes.suspicion("IN-06", what, &lines);
            }
        }
        let methods = items(result, "authMethods");
        if methods.is_empty() {
            return;
        }
        match repeated(
            methods
                .iter()
                .map(|m| text(m, "id"))
                .filter(|id| !id.is_empty()),
        ) {
            Some(id) => {
                let what = format!("two `authMethods` have the id \"{id}\"; ids must be unique");
                notes.violation("AU-01", what, &lines);
            }
            None => notes.pass("AU-01"),
        }
        let takes_terminal = request.params.pointer("/clientCapabilities/auth/terminal");
        let takes_terminal = takes_terminal == Some(&Value::Bool(true));
        for method in methods {
            self::method(method, takes_terminal, &lines, notes);
        }
    }
}

fn method(method: &Value, takes_terminal: bool, lines: &[u64], notes: &mut MonitorNotes) {
    let id = text(method, "id");
    match method.get("type").unwrap_or(&Value::Null) {
        Value::Null => notes.pass("AU-03"),
        Value::String(kind) if kind == "agent" || kind == "terminal" => notes.pass("AU-03"),
        other => {
            let former = other.as_str().filter(|t| FORMER_AUTH_TYPES.contains(t));
            let whence = match former {
                Some(_) => ", which was only in earlier drafts of the protocol",
                None => "",
            };
            let what = format!(
                "the auth method \"{id}\" has the type {other}{whence}; expected \"agent\" or \
                 \"terminal\""
            );
            notes.violation("AU-03", what, lines);
        }
    }
    let is_terminal = text(method, "type") == "terminal";
    if !takes_terminal {
        match is_terminal {
            true => {
                let what = format!(
                    "the auth method \"{id}\" needs a terminal, but the client did not announce \
                     `auth.terminal`"
                );
                notes.violation("AU-02", what, lines);
            }
            false => notes.pass("AU-02"),
        }
    }
    if is_terminal {
        match method.get("command") {
            Some(command) => {
                let what = format!(
                    "the terminal method \"{id}\" names the command {command}; clients start the \
                     agent itself, with `args` and `env`"
                );
                notes.violation("AU-04", what, lines);
            }
            None => notes.pass("AU-04"),
        }
    }
}
