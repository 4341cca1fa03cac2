//! Monitors of MCP over stdio. JSON-RPC and framing are checked as in ACP, and reported with the
//! requirement ids of MCP.

mod asking;
mod logging;
mod session;
#[cfg(test)]
mod tests;
mod tools;
mod work;

use serde_json::Value;

use super::envelope::Envelopes;
use super::framing::Framing;
use super::ids::Ids;
use super::{Ending, Ledger, Monitor, Notes, Seen};

/// The monitors of MCP, for one connection.
pub fn mcp() -> Vec<Box<dyn Monitor>> {
    vec![
        Box::new(Renamed(Framing::default())),
        Box::new(Renamed(Envelopes)),
        Box::new(Renamed(Ids::default())),
        Box::new(session::Session::default()),
        Box::new(work::Work::default()),
        Box::new(tools::Tools::default()),
        Box::new(logging::Logging::default()),
        Box::new(asking::Asking::default()),
    ]
}

/// The MCP requirement that corresponds to one of ACP.
fn named(acp: &str) -> Option<&'static str> {
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
struct Renamed<M>(M);

impl<M: Monitor> Monitor for Renamed<M> {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        let mut own = Notes::default();
        self.0.see(seen, ledger, &mut own);
        rename(own, notes);
    }

    fn end(&mut self, ending: &Ending, ledger: &Ledger, notes: &mut Notes) {
        let mut own = Notes::default();
        self.0.end(ending, ledger, &mut own);
        rename(own, notes);
    }
}

fn rename(own: Notes, notes: &mut Notes) {
    for (statement, found) in own.found {
        let Some(statement) = named(statement) else {
            continue;
        };
        notes.found.entry(statement).or_default().held += found.held;
        for violation in found.violations {
            let (message, lines) = (violation.message, violation.lines);
            match violation.is_guess {
                true => notes.doubtful(statement, message, &lines),
                false => notes.broken(statement, message, &lines),
            }
        }
    }
}

/// Whether the client declared a capability, by its JSON Pointer below `capabilities`.
fn client_can(ledger: &Ledger, pointer: &str) -> bool {
    can(&ledger.client, pointer)
}

fn server_can(ledger: &Ledger, pointer: &str) -> bool {
    can(&ledger.agent, pointer)
}

fn can(told: &Value, pointer: &str) -> bool {
    let value = told.get("capabilities").and_then(|c| c.pointer(pointer));
    matches!(value, Some(Value::Bool(true) | Value::Object(_)))
}

/// Whether the negotiated revision is this one or a later one. Revisions are dates.
fn is_since(ledger: &Ledger, revision: &str) -> bool {
    let agreed = ledger.agent.get("protocolVersion").and_then(Value::as_str);
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
