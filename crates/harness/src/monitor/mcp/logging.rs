//! Log messages: MCP-LOG-01, -02 and -04.

use serde_json::Value;

use super::super::{ConversationState, LineView, Monitor, MonitorNotes};
use super::{server_can, show};
use agentproto_wire::{Direction, MessageKind};

/// The levels of syslog, from the most to the least severe.
const LEVELS: [&str; 8] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug",
];

#[derive(Default)]
pub struct LoggingMonitor {
    /// Index of the minimum level that the client set, and the line of the response to it.
    least: Option<(usize, u64)>,
}

impl Monitor for LoggingMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let (Some(json), Some(envelope)) = (view.json, view.envelope) else {
            return;
        };
        if view.line.direction != Direction::FromAgent {
            return;
        }
        let number = view.line.number;
        match (&envelope.kind, view.answers) {
            (
                MessageKind::Response {
                    is_error: false, ..
                },
                Some(request),
            ) if request.method == "logging/setLevel" => {
                if let Some(level) = rank(request.params.get("level")) {
                    self.least = Some((level, number));
                }
            }
            (MessageKind::Notification { method }, _) if method == "notifications/message" => {
                self.message(json, number, state, notes);
            }
            _ => {}
        }
    }
}

impl LoggingMonitor {
    fn message(
        &self,
        json: &Value,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        match server_can(state, "/logging") {
            true => notes.pass("MCP-LOG-01"),
            false => {
                let what = "a log message is sent, but the server did not declare `logging`";
                notes.violation("MCP-LOG-01", what, &[number]);
            }
        }
        let params = json.get("params");
        let level = params.and_then(|p| p.get("level"));
        let Some(rank) = rank(level) else {
            let what = format!(
                "`level` of a log message is {}; it must be one of {}",
                show(level),
                LEVELS.join(", ")
            );
            notes.violation("MCP-LOG-02", what, &[number]);
            return;
        };
        match params.is_some_and(|p| p.get("data").is_some()) {
            true => notes.pass("MCP-LOG-02"),
            false => notes.violation("MCP-LOG-02", "a log message has no `data`", &[number]),
        }
        match self.least {
            Some((least, line)) if rank > least => {
                let what = format!(
                    "a log message has the level {}, which is below the minimum level that the \
                     client set",
                    show(level)
                );
                notes.violation("MCP-LOG-04", what, &[number, line]);
            }
            Some(_) => notes.pass("MCP-LOG-04"),
            None => {}
        }
    }
}

fn rank(level: Option<&Value>) -> Option<usize> {
    let level = level?.as_str()?;
    LEVELS.iter().position(|known| *known == level)
}
