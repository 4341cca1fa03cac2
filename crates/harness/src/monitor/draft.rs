//! Requirements of the version 2 draft for every message: V2-08, V2-10, V2-12, V2-13, V2-14, V2-27.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::view::{call, is_absolute, items, ours, result, text, update};
use super::{ConversationState, LineView, Monitor, MonitorNotes};

#[derive(Default)]
pub struct DraftMonitor {
    /// Terminals by session and id.
    terminals: HashMap<(String, String), Terminal>,
    /// The last entries of each plan, by session and id.
    plans: HashMap<(String, String), (Vec<String>, u64)>,
    /// Number of prompts so far. A terminal that ended during an earlier prompt cannot be reused.
    prompts: u64,
}

#[derive(Default)]
struct Terminal {
    line: u64,
    /// Number of the prompt during which the terminal ended.
    ended: Option<u64>,
}

/// Maximum number of terminals and plans that are remembered.
const MAX_REMEMBERED: usize = 10_000;

const STATES: &[&str] = &["running", "idle", "requires_action", "unknown"];
const STOP_REASONS: &[&str] = &[
    "end_turn",
    "max_tokens",
    "max_turn_requests",
    "refusal",
    "cancelled",
    "error",
];
const KINDS: &[&str] = &[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
];
const STATUSES: &[&str] = &[
    "pending",
    "in_progress",
    "paused",
    "completed",
    "failed",
    "cancelled",
];
const PLANS: &[&str] = &["items", "file", "markdown"];
const PRIORITIES: &[&str] = &["high", "medium", "low"];
const ENTRY_STATUSES: &[&str] = &["pending", "in_progress", "completed", "cancelled"];
const AUTH_METHODS: &[&str] = &["agent", "terminal"];
const PERMISSIONS: &[&str] = &["allow_once", "allow_always", "reject_once", "reject_always"];
const SUBJECTS: &[&str] = &["tool_call", "command"];
const OPTIONS: &[&str] = &["select", "boolean"];

impl Monitor for DraftMonitor {
    fn on_line(&mut self, view: &LineView<'_>, _: &ConversationState, notes: &mut MonitorNotes) {
        let number = view.line.number;
        if let Some((session, kind, update)) = update(view) {
            self.update(session, kind, update, number, notes);
        } else if let Some(("session/request_permission", params)) = call(view) {
            permission(params, number, notes);
        } else if let Some((request, result)) = result(view) {
            if request.method == "initialize" {
                for method in items(result, "authMethods") {
                    word(method, "type", AUTH_METHODS, number, notes);
                }
            }
            for option in items(result, "configOptions") {
                word(option, "type", OPTIONS, number, notes);
            }
        } else if let Some((method, _)) = ours(view) {
            match method {
                "session/prompt" => self.prompts += 1,
                // A replay repeats all earlier updates.
                "session/resume" => {
                    self.terminals.clear();
                    self.plans.clear();
                }
                _ => {}
            }
        }
    }
}

impl DraftMonitor {
    fn update(
        &mut self,
        session: &str,
        kind: &str,
        update: &Value,
        number: u64,
        notes: &mut MonitorNotes,
    ) {
        match kind {
            "user_message"
            | "user_message_chunk"
            | "agent_message"
            | "agent_message_chunk"
            | "agent_thought"
            | "agent_thought_chunk" => match update.get("messageId").and_then(Value::as_str) {
                Some(_) => notes.pass("V2-08"),
                None => {
                    let what = format!("a {kind} has no messageId");
                    notes.violation("V2-08", what, &[number]);
                }
            },
            "state_update" => {
                word(update, "state", STATES, number, notes);
                word(update, "stopReason", STOP_REASONS, number, notes);
            }
            "tool_call_update" => {
                word(update, "kind", KINDS, number, notes);
                word(update, "status", STATUSES, number, notes);
            }
            "config_option_update" => {
                for option in items(update, "configOptions") {
                    word(option, "type", OPTIONS, number, notes);
                }
            }
            "plan_update" => self.plan(session, update, number, notes),
            "terminal_update" => {
                directory(update, "the terminal", number, notes);
                self.terminal(session, update, number, notes);
                base64(update.pointer("/output/data"), number, notes);
            }
            "terminal_output_chunk" => base64(update.get("data"), number, notes),
            _ => {}
        }
    }

    fn plan(&mut self, session: &str, update: &Value, number: u64, notes: &mut MonitorNotes) {
        let plan = update.get("plan").unwrap_or(&Value::Null);
        word(plan, "type", PLANS, number, notes);
        let Some(id) = plan.get("planId").and_then(Value::as_str) else {
            notes.violation("V2-14", "a plan_update has no planId in `plan`", &[number]);
            return;
        };
        if text(plan, "type") != "items" {
            notes.pass("V2-14");
            return;
        }
        let Some(entries) = plan.get("entries").and_then(Value::as_array) else {
            let what = "a plan of type `items` has no list `entries`";
            notes.violation("V2-14", what, &[number]);
            return;
        };
        for entry in entries {
            word(entry, "priority", PRIORITIES, number, notes);
            word(entry, "status", ENTRY_STATUSES, number, notes);
            let members = ["content", "priority", "status"].into_iter();
            let mut missing = members.filter(|key| entry.get(key).is_none_or(|v| !v.is_string()));
            if let Some(key) = missing.next() {
                let what = format!("a plan entry has no `{key}`");
                notes.violation("V2-14", what, &[number]);
                return;
            }
        }
        let entries: Vec<String> = entries
            .iter()
            .map(|e| text(e, "content").to_owned())
            .collect();
        let key = (session.to_owned(), id.to_owned());
        match self.plans.get(&key) {
            // A plan may be replaced, but a shorter one without new entries looks like a partial
            // update.
            Some((before, line))
                if !entries.is_empty()
                    && entries.len() < before.len()
                    && entries.iter().all(|entry| before.contains(entry)) =>
            {
                let what = format!(
                    "the plan has {} of the previous {} entries and no new ones; each update must \
                     contain the whole plan",
                    entries.len(),
                    before.len()
                );
                notes.suspicion("V2-14", what, &[number, *line]);
            }
            _ => notes.pass("V2-14"),
        }
        if self.plans.len() > MAX_REMEMBERED {
            self.plans.clear();
        }
        self.plans.insert(key, (entries, number));
    }

    /// Checks that a new command does not reuse the id of a terminal that has ended.
    fn terminal(&mut self, session: &str, update: &Value, number: u64, notes: &mut MonitorNotes) {
        let id = text(update, "terminalId");
        let key = (session.to_owned(), id.to_owned());
        let starts = update.get("command").is_some_and(Value::is_string);
        let ends = update.get("exitStatus").is_some_and(Value::is_object);
        if self.terminals.len() > MAX_REMEMBERED {
            self.terminals.clear();
        }
        let is_second = !self.terminals.is_empty();
        let now = self.prompts;
        match self.terminals.get_mut(&key) {
            None => {
                if is_second {
                    notes.pass("V2-12");
                }
                let ended = ends.then_some(now);
                let terminal = Terminal {
                    line: number,
                    ended,
                };
                self.terminals.insert(key, terminal);
            }
            Some(known) => {
                if starts && !ends && known.ended.is_some_and(|ended| ended < now) {
                    let what =
                        format!("the terminal \"{id}\" has ended, but a new command reuses its id");
                    notes.violation("V2-12", what, &[number, known.line]);
                    known.ended = None;
                }
                if ends {
                    known.ended = Some(now);
                }
            }
        }
    }
}

fn permission(params: &Value, number: u64, notes: &mut MonitorNotes) {
    for option in items(params, "options") {
        word(option, "kind", PERMISSIONS, number, notes);
    }
    let subject = params.get("subject").unwrap_or(&Value::Null);
    word(subject, "type", SUBJECTS, number, notes);
    if text(subject, "type") == "command" {
        directory(
            subject,
            "the command in the permission request",
            number,
            notes,
        );
    }
    let call = subject.get("toolCall").unwrap_or(&Value::Null);
    word(call, "kind", KINDS, number, notes);
    word(call, "status", STATUSES, number, notes);
}

/// Checks a value of an open enum: agents may add values that start with `_`.
fn word(update: &Value, key: &str, known: &[&str], number: u64, notes: &mut MonitorNotes) {
    let Some(word) = update.get(key).and_then(Value::as_str) else {
        return;
    };
    match known.contains(&word) || word.starts_with('_') {
        true => notes.pass("V2-10"),
        false => {
            let what = format!(
                "`{key}` is \"{word}\", which is not in the draft; custom values must start with \
                 `_`"
            );
            notes.violation("V2-10", what, &[number]);
        }
    }
}

/// Checks that output of a terminal is base64. V2-22 reports a missing value.
fn base64(data: Option<&Value>, number: u64, notes: &mut MonitorNotes) {
    let Some(data) = data.and_then(Value::as_str) else {
        return;
    };
    match STANDARD.decode(data) {
        Ok(_) => notes.pass("V2-27"),
        Err(error) => {
            let what = format!("the output of a terminal is not base64: {error}");
            notes.violation("V2-27", what, &[number]);
        }
    }
}

fn directory(update: &Value, of: &str, number: u64, notes: &mut MonitorNotes) {
    let Some(cwd) = update.get("cwd").filter(|cwd| !cwd.is_null()) else {
        return;
    };
    match cwd.as_str().is_some_and(is_absolute) {
        true => notes.pass("V2-13"),
        false => {
            let what = format!("the cwd of {of} is {cwd}, which is not an absolute path");
            notes.violation("V2-13", what, &[number]);
        }
    }
}
