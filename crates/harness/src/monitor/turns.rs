//! Turns: PT-10, PT-18, PT-19, NO-01, NO-02.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::view::{ours, text, turn_end, update};
use super::{ConversationState, Ending, LineView, Monitor, MonitorNotes};

#[derive(Default)]
pub struct TurnMonitor {
    /// Sessions whose last turn was canceled, and whether something was sent after its end.
    cancelled: HashMap<String, bool>,
    /// Messages by session and kind of chunk.
    messages: HashMap<(String, String), Messages>,
    /// Sessions that were loaded during a turn, so that the replay and the turn are mixed.
    mixed: HashSet<String>,
    /// Whether a notice was sent in the current turn.
    noticed: bool,
    /// Whether a compaction was sent in the current turn.
    compacted: bool,
}

#[derive(Default)]
struct Messages {
    current: Option<(String, u64)>,
    /// Messages that are complete, because another one followed.
    over: HashSet<String>,
}

/// Maximum number of message ids that are remembered.
const MAX_REMEMBERED: usize = 10_000;

impl Monitor for TurnMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        if let Some((session, kind, update)) = update(view) {
            self.check(session, kind, update, view.line.number, state, notes);
        } else if let Some((session, result)) = turn_end(view) {
            self.forget_turn(session, notes);
            if text(result, "stopReason") == "cancelled" {
                self.cancelled.insert(session.to_owned(), false);
            }
            self.confirm_unused(state, notes);
        } else if let Some((method, params)) = ours(view) {
            let session = text(params, "sessionId");
            match method {
                "session/prompt" => self.forget_turn(session, notes),
                // A load replays earlier messages.
                "session/load" => {
                    self.messages.retain(|(s, _), _| s != session);
                    if state.has_turn(session) {
                        self.mixed.insert(session.to_owned());
                    }
                }
                _ => {}
            }
        }
    }

    fn on_end(&mut self, _: &Ending, _: &ConversationState, notes: &mut MonitorNotes) {
        let sessions: Vec<String> = self.cancelled.keys().cloned().collect();
        for session in sessions {
            self.forget_turn(&session, notes);
        }
    }
}

impl TurnMonitor {
    fn check(
        &mut self,
        session: &str,
        kind: &str,
        update: &Value,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        match kind {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                self.late(session, kind, number, state, notes);
                self.chunk(session, kind, update, number, notes);
            }
            "tool_call" | "tool_call_update" | "plan" => {
                self.late(session, kind, number, state, notes);
            }
            "usage_update" => cost(update, number, notes),
            "notice" => {
                self.noticed = true;
                gate("NO-01", kind, "/session/notices", number, state, notes);
            }
            "compaction_update" | "compaction_summary_chunk" => {
                self.compacted = true;
                gate("NO-02", kind, "/session/compaction", number, state, notes);
            }
            _ => {}
        }
    }

    /// Reports a part of a turn that is sent after the turn is over.
    fn late(
        &mut self,
        id: &str,
        kind: &str,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let Some(session) = state.sessions.get(id) else {
            return;
        };
        let Some((answer, true)) = session.last_answer else {
            return;
        };
        if session.turn.is_some() || session.is_loading || session.closed.is_some() {
            return;
        }
        if let Some(came) = self.cancelled.get_mut(id) {
            *came = true;
        }
        let what = format!("`{kind}` was sent after the response that ended the canceled turn");
        notes.violation("PT-10", what, &[number, answer]);
    }

    fn forget_turn(&mut self, session: &str, notes: &mut MonitorNotes) {
        if self.cancelled.remove(session) == Some(false) {
            notes.pass("PT-10");
        }
    }

    fn chunk(
        &mut self,
        session: &str,
        kind: &str,
        update: &Value,
        number: u64,
        notes: &mut MonitorNotes,
    ) {
        let Some(Value::String(id)) = update.get("messageId") else {
            return;
        };
        if self.mixed.contains(session) {
            return;
        }
        let key = (session.to_owned(), kind.to_owned());
        if self.messages.len() > MAX_REMEMBERED {
            self.messages.clear();
        }
        let messages = self.messages.entry(key).or_default();
        match &messages.current {
            Some((current, _)) if current == id => notes.pass("PT-18"),
            Some((current, line)) if messages.over.contains(id) => {
                let what = format!(
                    "a chunk belongs to the message \"{id}\" again, after chunks of \"{current}\"; \
                     a new message id ends the previous message"
                );
                notes.violation("PT-18", what, &[number, *line]);
            }
            Some(_) => notes.pass("PT-18"),
            None => {}
        }
        if messages.over.len() > MAX_REMEMBERED {
            messages.over.clear();
        }
        let before = messages.current.replace((id.clone(), number));
        if let Some((before, _)) = before
            && before != *id
        {
            messages.over.insert(before);
        }
    }

    /// Notes that a whole turn had no notices or compactions that the client did not ask for.
    fn confirm_unused(&mut self, state: &ConversationState, notes: &mut MonitorNotes) {
        if !state.client_can("/session/notices") && !self.noticed {
            notes.pass("NO-01");
        }
        if !state.client_can("/session/compaction") && !self.compacted {
            notes.pass("NO-02");
        }
        self.noticed = false;
        self.compacted = false;
    }
}

fn gate(
    requirement: &'static str,
    kind: &str,
    capability: &str,
    number: u64,
    state: &ConversationState,
    notes: &mut MonitorNotes,
) {
    if state.client_can(capability) {
        return;
    }
    let what = format!(
        "`{kind}` is sent, but the client did not announce `{}`",
        capability.trim_start_matches('/').replace('/', ".")
    );
    notes.violation(requirement, what, &with_start(number, state));
}

/// The line, and the line of the client's capabilities.
pub fn with_start(number: u64, state: &ConversationState) -> Vec<u64> {
    [Some(number), state.started]
        .into_iter()
        .flatten()
        .collect()
}

fn cost(update: &Value, number: u64, notes: &mut MonitorNotes) {
    let Some(Value::String(currency)) = update.pointer("/cost/currency") else {
        return;
    };
    let is_code = currency.len() == 3 && currency.bytes().all(|b| b.is_ascii_uppercase());
    if !is_code {
        let at = "/params/update/cost/currency";
        let what = format!("`{at}` is \"{currency}\"; expected an ISO 4217 code such as USD");
        notes.violation_at("PT-19", at, what, &[number]);
    }
}
