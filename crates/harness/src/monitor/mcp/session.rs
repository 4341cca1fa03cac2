//! The start of a connection, and general requirements for requests and notifications of the
//! server: MCP-BASE-02, -03 and -09, MCP-LIFE-01 to -04 and -08.

use serde_json::Value;

use super::super::{ConversationState, LineView, Monitor, MonitorNotes, id_key};
use super::{server_can, show};
use agentproto_wire::{Direction, MessageKind};

#[derive(Default)]
pub struct McpSessionMonitor {
    /// Whether the client sent `notifications/initialized`.
    is_ready: bool,
}

impl Monitor for McpSessionMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let (Some(json), Some(envelope)) = (view.json, view.envelope) else {
            return;
        };
        let number = view.line.number;
        match (view.line.direction, &envelope.kind) {
            (Direction::ToAgent, MessageKind::Notification { method })
                if method == "notifications/initialized" =>
            {
                self.is_ready = true;
            }
            (Direction::FromAgent, MessageKind::Request { id, method }) => {
                id_of(id, method, number, state, notes);
                self.asks(method, number, notes);
            }
            (Direction::FromAgent, MessageKind::Notification { method }) => {
                changed(method, number, state, notes);
            }
            (
                Direction::FromAgent,
                MessageKind::Response {
                    is_error: false, ..
                },
            ) => {
                if let Some(request) = view.answers {
                    let lines = [number, request.line];
                    let result = json.get("result").unwrap_or(&Value::Null);
                    match request.method.as_str() {
                        "initialize" => initialized(result, &lines, notes),
                        // A separate requirement covers this response.
                        "ping" => {}
                        _ => object(&request.method, result, &lines, notes),
                    }
                }
            }
            _ => {}
        }
    }
}

impl McpSessionMonitor {
    fn asks(&self, method: &str, number: u64, notes: &mut MonitorNotes) {
        if self.is_ready || method == "ping" {
            notes.pass("MCP-LIFE-04");
            return;
        }
        let what = format!("`{method}` is sent before the client sent `notifications/initialized`");
        notes.violation("MCP-LIFE-04", what, &[number]);
    }
}

fn id_of(
    id: &Value,
    method: &str,
    number: u64,
    state: &ConversationState,
    notes: &mut MonitorNotes,
) {
    if !(id.is_string() || id.is_i64() || id.is_u64()) {
        let what = format!("`{method}` has the id {id}; it must be a string or an integer");
        notes.violation("MCP-BASE-02", what, &[number]);
        return;
    }
    notes.pass("MCP-BASE-02");
    match state.from_agent.get(&id_key(id)) {
        Some(earlier) => {
            let what = format!(
                "`{method}` has the id {id}, which `{}` already used; an id may be used only once \
                 per session",
                earlier.method
            );
            notes.violation("MCP-BASE-03", what, &[number, earlier.line]);
        }
        // The first request cannot reuse an id.
        None if !state.from_agent.is_empty() => notes.pass("MCP-BASE-03"),
        None => {}
    }
}

fn initialized(result: &Value, lines: &[u64], notes: &mut MonitorNotes) {
    let mut check = |requirement, holds: bool, what: String| match holds {
        true => notes.pass(requirement),
        false => notes.violation(requirement, what, lines),
    };
    let version = result.get("protocolVersion");
    check(
        "MCP-LIFE-01",
        version.is_some_and(Value::is_string),
        format!(
            "`protocolVersion` is {}; it must be a string",
            show(version)
        ),
    );
    let capabilities = result.get("capabilities");
    check(
        "MCP-LIFE-02",
        capabilities.is_some_and(Value::is_object),
        format!(
            "`capabilities` is {}; it must be an object, which may be empty",
            show(capabilities)
        ),
    );
    let info = result.get("serverInfo");
    let has = |key: &str| info.and_then(|i| i.get(key)).is_some_and(Value::is_string);
    check(
        "MCP-LIFE-03",
        has("name") && has("version"),
        format!(
            "`serverInfo` is {}; it must have the strings `name` and `version`",
            show(info)
        ),
    );
}

fn object(method: &str, result: &Value, lines: &[u64], notes: &mut MonitorNotes) {
    match result.is_object() {
        true => notes.pass("MCP-BASE-09"),
        false => {
            let what = format!(
                "the result of `{method}` is {}; it must be an object",
                show(Some(result))
            );
            notes.violation("MCP-BASE-09", what, lines);
        }
    }
}

/// Checks notifications that require a capability of the server.
fn changed(method: &str, number: u64, state: &ConversationState, notes: &mut MonitorNotes) {
    let needed = match method {
        "notifications/tools/list_changed" => "/tools/listChanged",
        "notifications/prompts/list_changed" => "/prompts/listChanged",
        "notifications/resources/list_changed" => "/resources/listChanged",
        "notifications/resources/updated" => "/resources/subscribe",
        _ => return,
    };
    match server_can(state, needed) {
        true => notes.pass("MCP-LIFE-08"),
        false => {
            let name = needed.trim_start_matches('/').replace('/', ".");
            let what = format!("`{method}` is sent, but the server did not declare `{name}`");
            notes.violation("MCP-LIFE-08", what, &[number]);
        }
    }
}
