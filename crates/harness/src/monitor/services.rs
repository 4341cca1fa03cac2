//! Requests of the agent to the client: FS-01 to FS-03, TE-01 to TE-05, TC-10, IN-11.

use std::collections::HashMap;

use serde_json::Value;

use super::turns::with_start;
use super::view::{call, is_absolute, items, reply, text, turn_end, update};
use super::{ConversationState, Ending, LineView, Monitor, MonitorNotes};

#[derive(Default)]
pub struct ServiceMonitor {
    terminals: HashMap<String, Terminal>,
    /// Whether the current turn had a tool call, and thus an occasion to use the client.
    used_tools: bool,
    /// Whether a service was used that the client did not announce.
    used_unannounced: bool,
}

struct Terminal {
    created: u64,
    killed: Option<u64>,
    released: Option<u64>,
    was_shown: bool,
    was_misused: bool,
}

/// Maximum number of terminals that are remembered.
const MAX_REMEMBERED: usize = 20_000;

impl Monitor for ServiceMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let number = view.line.number;
        if let Some((_, kind, update)) = update(view) {
            if matches!(kind, "tool_call" | "tool_call_update") {
                self.used_tools |= kind == "tool_call";
                self.content(view, update, state, notes);
            }
        } else if let Some((method, params)) = call(view) {
            self.gate(method, number, state, notes);
            match method {
                "fs/read_text_file" | "fs/write_text_file" => path(method, params, number, notes),
                "terminal/create" => working_directory(params, number, notes),
                _ if method.starts_with("terminal/") => {
                    self.terminal(method, params, number, notes);
                }
                _ => {}
            }
        } else if let Some((request, result)) = reply(view) {
            if request.method == "terminal/create" && self.terminals.len() < MAX_REMEMBERED {
                let terminal = Terminal {
                    created: request.line,
                    killed: None,
                    released: None,
                    was_shown: false,
                    was_misused: false,
                };
                let id = text(result, "terminalId").to_owned();
                self.terminals.insert(id, terminal);
            }
        } else if let Some((_, result)) = turn_end(view) {
            self.confirm_unused(text(result, "stopReason"), state, notes);
        }
    }

    fn on_end(&mut self, ending: &Ending, state: &ConversationState, notes: &mut MonitorNotes) {
        let mut terminals: Vec<(&String, &Terminal)> = self.terminals.iter().collect();
        terminals.sort_by_key(|(_, terminal)| terminal.created);
        let is_busy = state
            .sessions
            .values()
            .any(|session| session.turn.is_some());
        for (id, terminal) in terminals {
            if terminal.released.is_some() {
                if !terminal.was_misused {
                    notes.pass("TE-03");
                }
                continue;
            }
            if !ending.is_orderly || is_busy {
                continue;
            }
            match terminal.killed {
                Some(killed) => {
                    let what = format!("the terminal \"{id}\" was killed, but never released");
                    notes.violation("TE-04", what, &[terminal.created, killed]);
                }
                None => {
                    let what = format!("the terminal \"{id}\" was created, but never released");
                    notes.violation("TE-02", what, &[terminal.created]);
                }
            }
        }
    }
}

impl ServiceMonitor {
    /// Checks that the agent uses only what the client announced.
    fn gate(
        &mut self,
        method: &str,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let (requirement, capability) = match method {
            "fs/read_text_file" => ("FS-01", "/fs/readTextFile"),
            "fs/write_text_file" => ("FS-02", "/fs/writeTextFile"),
            "elicitation/create" => ("", "/elicitation"),
            _ if method.starts_with("terminal/") => ("TE-01", "/terminal"),
            _ => return,
        };
        if !announces_nothing(state) && state.client_can(capability) {
            return;
        }
        self.used_unannounced = true;
        let lines = with_start(number, state);
        // The monitor of elicitations checks the modes.
        if !requirement.is_empty() {
            let name = capability.trim_start_matches('/').replace('/', ".");
            let what = format!("`{method}` is called, but the client did not announce `{name}`");
            notes.violation(requirement, what, &lines);
        }
        if announces_nothing(state) {
            let what = format!(
                "`{method}` is called, but the client announced no capabilities; capabilities that \
                 are not announced are not supported"
            );
            notes.violation("IN-11", what, &lines);
        }
    }

    /// Notes that a turn completed without services that the client did not announce.
    fn confirm_unused(
        &mut self,
        reason: &str,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let used_tools = std::mem::take(&mut self.used_tools);
        if std::mem::take(&mut self.used_unannounced) || reason != "end_turn" {
            return;
        }
        // FS-01, FS-02 and TE-01 do not pass here: the agent may never use these services, whatever
        // the client offers. Their cases check that it does.
        if used_tools && announces_nothing(state) {
            notes.pass("IN-11");
        }
    }

    fn terminal(&mut self, method: &str, params: &Value, number: u64, notes: &mut MonitorNotes) {
        let Some(Value::String(id)) = params.get("terminalId") else {
            return;
        };
        let Some(terminal) = self.terminals.get_mut(id) else {
            if self.terminals.len() < MAX_REMEMBERED {
                let what =
                    format!("`{method}` names the terminal \"{id}\", which was never created");
                notes.violation("TE-03", what, &[number]);
            }
            return;
        };
        if let Some(released) = terminal.released {
            terminal.was_misused = true;
            let what = format!("`{method}` names the terminal \"{id}\", which was released");
            return notes.violation("TE-03", what, &[number, released]);
        }
        match method {
            "terminal/kill" => terminal.killed = Some(number),
            "terminal/release" => {
                terminal.released = Some(number);
                notes.pass(match terminal.killed {
                    Some(_) => "TE-04",
                    None => "TE-02",
                });
            }
            _ => {}
        }
    }

    /// Checks the terminals that a tool call shows.
    fn content(
        &mut self,
        view: &LineView<'_>,
        update: &Value,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let number = view.line.number;
        let session = view.json.and_then(super::session_of).unwrap_or_default();
        let is_replay = state.sessions.get(session).is_some_and(|s| s.is_loading);
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
                notes.violation("TC-10", what, &[number]);
                continue;
            };
            match terminal.released.filter(|_| !terminal.was_shown) {
                Some(released) => {
                    let what = format!(
                        "a tool call shows the terminal \"{id}\" only after it was released"
                    );
                    notes.violation("TC-10", what, &[number, released]);
                }
                None => notes.pass("TC-10"),
            }
            terminal.was_shown = true;
        }
    }
}

fn announces_nothing(state: &ConversationState) -> bool {
    let services = [
        "/fs/readTextFile",
        "/fs/writeTextFile",
        "/terminal",
        "/elicitation/form",
        "/elicitation/url",
    ];
    services.iter().all(|service| !state.client_can(service))
}

fn path(method: &str, params: &Value, number: u64, notes: &mut MonitorNotes) {
    if let Some(Value::String(path)) = params.get("path") {
        match is_absolute(path) {
            true => notes.pass("FS-03"),
            false => {
                let what =
                    format!("`{method}`: `/params/path` is \"{path}\"; expected an absolute path");
                notes.violation_at("FS-03", "/params/path", what, &[number]);
            }
        }
    }
    if params.get("line").and_then(Value::as_u64) == Some(0) {
        let what = format!("`{method}`: `/params/line` is 0; line numbers start at 1");
        notes.violation_at("FS-04", "/params/line", what, &[number]);
    }
}

fn working_directory(params: &Value, number: u64, notes: &mut MonitorNotes) {
    if let Some(Value::String(cwd)) = params.get("cwd") {
        match is_absolute(cwd) {
            true => notes.pass("TE-05"),
            false => {
                let what = format!(
                    "`terminal/create`: `/params/cwd` is \"{cwd}\"; expected an absolute path"
                );
                notes.violation_at("TE-05", "/params/cwd", what, &[number]);
            }
        }
    }
}
