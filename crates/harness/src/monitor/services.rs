//! Requests of the agent to the client: FS-01 to FS-03, TE-01 to TE-05, TC-10, IN-11.

use std::collections::HashMap;

use serde_json::Value;

use super::turns::with_start;
use super::view::{call, is_absolute, items, reply, text, turn_end, update};
use super::{Ending, Ledger, Monitor, Notes, Seen};

#[derive(Default)]
pub struct Services {
    terminals: HashMap<String, Terminal>,
    /// Kinds of the tool calls in the current turn, which show what was done without the client.
    did: Vec<String>,
    /// Whether a service was used that the client did not announce.
    is_unasked: bool,
}

struct Terminal {
    created: u64,
    killed: Option<u64>,
    released: Option<u64>,
    was_shown: bool,
    was_misused: bool,
}

/// Maximum number of terminals that are remembered.
const REMEMBERED: usize = 20_000;

impl Monitor for Services {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        let number = seen.line.number;
        if let Some((_, kind, update)) = update(seen) {
            if matches!(kind, "tool_call" | "tool_call_update") {
                if kind == "tool_call" && self.did.len() < 64 {
                    self.did.push(text(update, "kind").to_owned());
                }
                self.content(seen, update, ledger, notes);
            }
        } else if let Some((method, params)) = call(seen) {
            self.gate(method, number, ledger, notes);
            match method {
                "fs/read_text_file" | "fs/write_text_file" => path(method, params, number, notes),
                "terminal/create" => working_directory(params, number, notes),
                _ if method.starts_with("terminal/") => {
                    self.terminal(method, params, number, notes);
                }
                _ => {}
            }
        } else if let Some((asked, result)) = reply(seen) {
            if asked.method == "terminal/create" && self.terminals.len() < REMEMBERED {
                let terminal = Terminal {
                    created: asked.line,
                    killed: None,
                    released: None,
                    was_shown: false,
                    was_misused: false,
                };
                let id = text(result, "terminalId").to_owned();
                self.terminals.insert(id, terminal);
            }
        } else if let Some((_, result)) = turn_end(seen) {
            self.hold_gates(text(result, "stopReason"), ledger, notes);
        }
    }

    fn end(&mut self, ending: &Ending, ledger: &Ledger, notes: &mut Notes) {
        let mut terminals: Vec<(&String, &Terminal)> = self.terminals.iter().collect();
        terminals.sort_by_key(|(_, terminal)| terminal.created);
        let is_busy = ledger
            .sessions
            .values()
            .any(|session| session.turn.is_some());
        for (id, terminal) in terminals {
            if terminal.released.is_some() {
                if !terminal.was_misused {
                    notes.held("TE-03");
                }
                continue;
            }
            if !ending.is_orderly || is_busy {
                continue;
            }
            match terminal.killed {
                Some(killed) => {
                    let what = format!("the terminal \"{id}\" was killed, but never released");
                    notes.broken("TE-04", what, &[terminal.created, killed]);
                }
                None => {
                    let what = format!("the terminal \"{id}\" was created, but never released");
                    notes.broken("TE-02", what, &[terminal.created]);
                }
            }
        }
    }
}

impl Services {
    /// Checks that the agent uses only what the client announced.
    fn gate(&mut self, method: &str, number: u64, ledger: &Ledger, notes: &mut Notes) {
        let (statement, capability) = match method {
            "fs/read_text_file" => ("FS-01", "/fs/readTextFile"),
            "fs/write_text_file" => ("FS-02", "/fs/writeTextFile"),
            "elicitation/create" => ("", "/elicitation"),
            _ if method.starts_with("terminal/") => ("TE-01", "/terminal"),
            _ => return,
        };
        if !announces_nothing(ledger) && ledger.client_can(capability) {
            return;
        }
        self.is_unasked = true;
        let lines = with_start(number, ledger);
        // The monitor of elicitations checks the modes.
        if !statement.is_empty() {
            let name = capability.trim_start_matches('/').replace('/', ".");
            let what = format!("`{method}` is called, but the client did not announce `{name}`");
            notes.broken(statement, what, &lines);
        }
        if announces_nothing(ledger) {
            let what = format!(
                "`{method}` is called, but the client announced no capabilities; capabilities that \
                 are not announced are not supported"
            );
            notes.broken("IN-11", what, &lines);
        }
    }

    /// Notes that a turn completed without services that the client did not announce.
    fn hold_gates(&mut self, reason: &str, ledger: &Ledger, notes: &mut Notes) {
        let did = std::mem::take(&mut self.did);
        if std::mem::take(&mut self.is_unasked) || reason != "end_turn" {
            return;
        }
        let used = |kinds: &[&str]| did.iter().any(|kind| kinds.contains(&kind.as_str()));
        let gates = [
            ("FS-01", "/fs/readTextFile", used(&["read", "search"])),
            (
                "FS-02",
                "/fs/writeTextFile",
                used(&["edit", "delete", "move"]),
            ),
            ("TE-01", "/terminal", used(&["execute"])),
        ];
        for (statement, capability, is_occasion) in gates {
            if is_occasion && !ledger.client_can(capability) {
                notes.held(statement);
            }
        }
        if !did.is_empty() && announces_nothing(ledger) {
            notes.held("IN-11");
        }
    }

    fn terminal(&mut self, method: &str, params: &Value, number: u64, notes: &mut Notes) {
        let Some(Value::String(id)) = params.get("terminalId") else {
            return;
        };
        let Some(terminal) = self.terminals.get_mut(id) else {
            if self.terminals.len() < REMEMBERED {
                let what =
                    format!("`{method}` names the terminal \"{id}\", which was never created");
                notes.broken("TE-03", what, &[number]);
            }
            return;
        };
        if let Some(released) = terminal.released {
            terminal.was_misused = true;
            let what = format!("`{method}` names the terminal \"{id}\", which was released");
            return notes.broken("TE-03", what, &[number, released]);
        }
        match method {
            "terminal/kill" => terminal.killed = Some(number),
            "terminal/release" => {
                terminal.released = Some(number);
                notes.held(match terminal.killed {
                    Some(_) => "TE-04",
                    None => "TE-02",
                });
            }
            _ => {}
        }
    }

    /// Checks the terminals that a tool call shows.
    fn content(&mut self, seen: &Seen<'_>, update: &Value, ledger: &Ledger, notes: &mut Notes) {
        let number = seen.line.number;
        let session = seen.json.and_then(super::session_of).unwrap_or_default();
        let is_replay = ledger.sessions.get(session).is_some_and(|s| s.is_loading);
        for content in items(update, "content") {
            let Some(Value::String(id)) = content.get("terminalId") else {
                continue;
            };
            if text(content, "type") != "terminal" || is_replay {
                continue;
            }
            let Some(terminal) = self.terminals.get_mut(id) else {
                let what = format!(
                    "a tool call shows the terminal \"{id}\", which was not created with \
                     `terminal/create`"
                );
                notes.broken("TC-10", what, &[number]);
                continue;
            };
            match terminal.released.filter(|_| !terminal.was_shown) {
                Some(released) => {
                    let what = format!(
                        "a tool call shows the terminal \"{id}\" only after it was released"
                    );
                    notes.broken("TC-10", what, &[number, released]);
                }
                None => notes.held("TC-10"),
            }
            terminal.was_shown = true;
        }
    }
}

fn announces_nothing(ledger: &Ledger) -> bool {
    let services = [
        "/fs/readTextFile",
        "/fs/writeTextFile",
        "/terminal",
        "/elicitation/form",
        "/elicitation/url",
    ];
    services.iter().all(|service| !ledger.client_can(service))
}

fn path(method: &str, params: &Value, number: u64, notes: &mut Notes) {
    if let Some(Value::String(path)) = params.get("path") {
        match is_absolute(path) {
            true => notes.held("FS-03"),
            false => {
                let what =
                    format!("`{method}`: `/params/path` is \"{path}\"; expected an absolute path");
                notes.broken_at("FS-03", "/params/path", what, &[number]);
            }
        }
    }
    if params.get("line").and_then(Value::as_u64) == Some(0) {
        let what = format!("`{method}`: `/params/line` is 0; line numbers start at 1");
        notes.broken_at("FS-04", "/params/line", what, &[number]);
    }
}

fn working_directory(params: &Value, number: u64, notes: &mut Notes) {
    if let Some(Value::String(cwd)) = params.get("cwd") {
        match is_absolute(cwd) {
            true => notes.held("TE-05"),
            false => {
                let what = format!(
                    "`terminal/create`: `/params/cwd` is \"{cwd}\"; expected an absolute path"
                );
                notes.broken_at("TE-05", "/params/cwd", what, &[number]);
            }
        }
    }
}
