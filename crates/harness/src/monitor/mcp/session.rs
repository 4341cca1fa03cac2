//! The start of a connection, and general requirements for requests and notifications of the
//! server: MCP-BASE-02, -03 and -09, MCP-LIFE-01 to -04 and -08.

use serde_json::Value;

use super::super::{Ledger, Monitor, Notes, Seen, id_key};
use super::{server_can, show};
use agentproto_wire::{Direction, Kind};

#[derive(Default)]
pub struct Session {
    /// Whether the client sent `notifications/initialized`.
    is_ready: bool,
}

impl Monitor for Session {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        let (Some(json), Some(envelope)) = (seen.json, seen.envelope) else {
            return;
        };
        let number = seen.line.number;
        match (seen.line.direction, &envelope.kind) {
            (Direction::ToAgent, Kind::Notification { method })
                if method == "notifications/initialized" =>
            {
                self.is_ready = true;
            }
            (Direction::FromAgent, Kind::Request { id, method }) => {
                id_of(id, method, number, ledger, notes);
                self.asks(method, number, notes);
            }
            (Direction::FromAgent, Kind::Notification { method }) => {
                changed(method, number, ledger, notes);
            }
            (
                Direction::FromAgent,
                Kind::Response {
                    is_error: false, ..
                },
            ) => {
                if let Some(asked) = seen.answers {
                    let lines = [number, asked.line];
                    let result = json.get("result").unwrap_or(&Value::Null);
                    match asked.method.as_str() {
                        "initialize" => initialized(result, &lines, notes),
                        // A separate requirement covers this response.
                        "ping" => {}
                        _ => object(&asked.method, result, &lines, notes),
                    }
                }
            }
            _ => {}
        }
    }
}

impl Session {
    fn asks(&self, method: &str, number: u64, notes: &mut Notes) {
        if self.is_ready || method == "ping" {
            notes.held("MCP-LIFE-04");
            return;
        }
        let what = format!("`{method}` is sent before the client sent `notifications/initialized`");
        notes.broken("MCP-LIFE-04", what, &[number]);
    }
}

fn id_of(id: &Value, method: &str, number: u64, ledger: &Ledger, notes: &mut Notes) {
    if !(id.is_string() || id.is_i64() || id.is_u64()) {
        let what = format!("`{method}` has the id {id}; it must be a string or an integer");
        notes.broken("MCP-BASE-02", what, &[number]);
        return;
    }
    notes.held("MCP-BASE-02");
    match ledger.from_agent.get(&id_key(id)) {
        Some(earlier) => {
            let what = format!(
                "`{method}` has the id {id}, which `{}` already used; an id may be used only once \
                 per session",
                earlier.method
            );
            notes.broken("MCP-BASE-03", what, &[number, earlier.line]);
        }
        // The first request cannot reuse an id.
        None if !ledger.from_agent.is_empty() => notes.held("MCP-BASE-03"),
        None => {}
    }
}

fn initialized(result: &Value, lines: &[u64], notes: &mut Notes) {
    let mut judge = |statement, holds: bool, what: String| match holds {
        true => notes.held(statement),
        false => notes.broken(statement, what, lines),
    };
    let version = result.get("protocolVersion");
    judge(
        "MCP-LIFE-01",
        version.is_some_and(Value::is_string),
        format!(
            "`protocolVersion` is {}; it must be a string",
            show(version)
        ),
    );
    let capabilities = result.get("capabilities");
    judge(
        "MCP-LIFE-02",
        capabilities.is_some_and(Value::is_object),
        format!(
            "`capabilities` is {}; it must be an object, which may be empty",
            show(capabilities)
        ),
    );
    let info = result.get("serverInfo");
    let has = |key: &str| info.and_then(|i| i.get(key)).is_some_and(Value::is_string);
    judge(
        "MCP-LIFE-03",
        has("name") && has("version"),
        format!(
            "`serverInfo` is {}; it must have the strings `name` and `version`",
            show(info)
        ),
    );
}

fn object(method: &str, result: &Value, lines: &[u64], notes: &mut Notes) {
    match result.is_object() {
        true => notes.held("MCP-BASE-09"),
        false => {
            let what = format!(
                "the result of `{method}` is {}; it must be an object",
                show(Some(result))
            );
            notes.broken("MCP-BASE-09", what, lines);
        }
    }
}

/// Checks notifications that require a capability of the server.
fn changed(method: &str, number: u64, ledger: &Ledger, notes: &mut Notes) {
    let needed = match method {
        "notifications/tools/list_changed" => "/tools/listChanged",
        "notifications/prompts/list_changed" => "/prompts/listChanged",
        "notifications/resources/list_changed" => "/resources/listChanged",
        "notifications/resources/updated" => "/resources/subscribe",
        _ => return,
    };
    match server_can(ledger, needed) {
        true => notes.held("MCP-LIFE-08"),
        false => {
            let name = needed.trim_start_matches('/').replace('/', ".");
            let what = format!("`{method}` is sent, but the server did not declare `{name}`");
            notes.broken("MCP-LIFE-08", what, &[number]);
        }
    }
}
