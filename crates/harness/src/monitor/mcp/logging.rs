//! Log messages: MCP-LOG-01, -02 and -04.

use serde_json::Value;

use super::super::{Ledger, Monitor, Notes, Seen};
use super::{server_can, show};
use agentproto_wire::{Direction, Kind};

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
pub struct Logging {
    /// Index of the minimum level that the client set, and the line of the response to it.
    least: Option<(usize, u64)>,
}

impl Monitor for Logging {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        let (Some(json), Some(envelope)) = (seen.json, seen.envelope) else {
            return;
        };
        if seen.line.direction != Direction::FromAgent {
            return;
        }
        let number = seen.line.number;
        match (&envelope.kind, seen.answers) {
            (
                Kind::Response {
                    is_error: false, ..
                },
                Some(asked),
            ) if asked.method == "logging/setLevel" => {
                if let Some(level) = rank(asked.params.get("level")) {
                    self.least = Some((level, number));
                }
            }
            (Kind::Notification { method }, _) if method == "notifications/message" => {
                self.message(json, number, ledger, notes);
            }
            _ => {}
        }
    }
}

impl Logging {
    fn message(&self, json: &Value, number: u64, ledger: &Ledger, notes: &mut Notes) {
        match server_can(ledger, "/logging") {
            true => notes.held("MCP-LOG-01"),
            false => {
                let what = "a log message is sent, but the server did not declare `logging`";
                notes.broken("MCP-LOG-01", what, &[number]);
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
            notes.broken("MCP-LOG-02", what, &[number]);
            return;
        };
        match params.is_some_and(|p| p.get("data").is_some()) {
            true => notes.held("MCP-LOG-02"),
            false => notes.broken("MCP-LOG-02", "a log message has no `data`", &[number]),
        }
        match self.least {
            Some((least, line)) if rank > least => {
                let what = format!(
                    "a log message has the level {}, which is below the minimum level that the \
                     client set",
                    show(level)
                );
                notes.broken("MCP-LOG-04", what, &[number, line]);
            }
            Some(_) => notes.held("MCP-LOG-04"),
            None => {}
        }
    }
}

fn rank(level: Option<&Value>) -> Option<usize> {
    let level = level?.as_str()?;
    LEVELS.iter().position(|known| *known == level)
}
