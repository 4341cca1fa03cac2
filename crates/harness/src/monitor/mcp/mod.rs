//! Monitors of MCP over stdio. JSON-RPC and framing are checked as in ACP, and reported with the
//! requirement ids of MCP.

mod client_requests;
mod logging;
mod progress;
mod session;
#[cfg(test)]
mod tests;
mod tools;

use serde_json::Value;

use super::envelope::EnvelopeMonitor;
use super::framing::FramingMonitor;
use super::ids::IdMonitor;
use super::{ConversationState, Ending, LineView, Monitor, MonitorNotes};

/// The monitors of MCP, for one connection.
pub fn mcp() -> Vec<Box<dyn Monitor>> {
    vec![
        Box::new(WithMcpIds(FramingMonitor::default())),
        Box::new(WithMcpIds(EnvelopeMonitor)),
        Box::new(WithMcpIds(IdMonitor::default())),
        Box::new(session::McpSessionMonitor::default()),
        Box::new(progress::ProgressMonitor::default()),
        Box::new(tools::McpToolMonitor::default()),
        Box::new(logging::LoggingMonitor::default()),
        Box::new(client_requests::ClientRequestMonitor::default()),
    ]
}

/// The MCP requirement that corresponds to one of ACP.
fn mcp_id(acp: &str) -> Option<&'static str> {
    Some(match acp {
        "TR-01" => "MCP-STDIO-01",
        "TR-02" => "MCP-STDIO-02",
        "TR-03" => "MCP-STDIO-03",
        "TR-04" => "MCP-STDIO-04",
        "TR-05" => "MCP-BASE-01",
        "TR-06" => "MCP-BASE-05",
        "TR-07" => "MCP-BASE-06",
        "TR-08" => "MCP-BASE-04",
        "TR-09" => "MCP-BASE-08",
        "TR-10" => "MCP-BASE-07",
        // MCP is stricter about the reuse of ids, and has no equivalent for the other requirements.
        _ => return None,
    })
}

/// A monitor of ACP whose notes are reported with the ids of MCP.
struct WithMcpIds<M>(M);

impl<M: Monitor> Monitor for WithMcpIds<M> {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let mut own = MonitorNotes::default();
        self.0.on_line(view, state, &mut own);
        rename(own, notes);
    }

    fn on_end(&mut self, ending: &Ending, state: &ConversationState, notes: &mut MonitorNotes) {
        let mut own = MonitorNotes::default();
        self.0.on_end(ending, state, &mut own);
        rename(own, notes);
    }
}

fn rename(own: MonitorNotes, notes: &mut MonitorNotes) {
    for (requirement, found) in own.found {
        let Some(requirement) = mcp_id(requirement) else {
            continue;
        };
        notes.found.entry(requirement).or_default().passed += found.passed;
        for violation in found.violations {
            let (message, lines) = (violation.message, violation.lines);
            match violation.is_guess {
                true => notes.suspicion(requirement, message, &lines),
                false => notes.violation(requirement, message, &lines),
            }
        }
    }
}

/// Whether the client declared a capability, by its JSON Pointer below `capabilities`.
fn client_can(state: &ConversationState, pointer: &str) -> bool {
    can(&state.client, pointer)
}

fn server_can(state: &ConversationState, pointer: &str) -> bool {
    can(&state.agent, pointer)
}

fn can(initialize: &Value, pointer: &str) -> bool {
    let value = initialize
        .get("capabilities")
        .and_then(|c| c.pointer(pointer));
    matches!(value, Some(Value::Bool(true) | Value::Object(_)))
}

/// Whether the negotiated revision is this one or a later one. Revisions are dates.
fn is_since(state: &ConversationState, revision: &str) -> bool {
    let agreed = state.agent.get("protocolVersion").and_then(Value::as_str);
    agreed.is_some_and(|agreed| agreed >= revision)
}

/// A value for a message, shortened.
fn show(value: Option<&Value>) -> String {
    match value {
        None => "absent".to_owned(),
        Some(value) => {
            let text = value.to_string();
            let mut short: String = text.chars().take(60).collect();
            if short.len() < text.len() {
                short.push('…');
            }
            short
        }
    }
}
