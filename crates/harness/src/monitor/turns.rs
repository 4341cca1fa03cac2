//! Turns: PT-10, PT-18, PT-19, NO-01, NO-02.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::view::{ours, text, turn_end, update};
use super::{Ending, Ledger, Monitor, Notes, Seen};

#[derive(Default)]
pub struct Turns {
    /// Sessions whose last turn was canceled, and whether something was sent after its end.
    cancelled: HashMap<String, bool>,
    /// Messages by session and kind of chunk.
    messages: HashMap<(String, String), Messages>,
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
const REMEMBERED: usize = 10_000;

impl Monitor for Turns {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        if let Some((session, kind, update)) = update(seen) {
            self.judge(session, kind, update, seen.line.number, ledger, notes);
        } else if let Some((session, result)) = turn_end(seen) {
            self.forget_turn(session, notes);
            if text(result, "stopReason") == "cancelled" {
                self.cancelled.insert(session.to_owned(), false);
            }
            self.hold_gates(ledger, notes);
        } else if let Some((method, params)) = ours(seen) {
            let session = text(params, "sessionId");
            match method {
                "session/prompt" => self.forget_turn(session, notes),
                // A load replays earlier messages.
                "session/load" => self.messages.retain(|(s, _), _| s != session),
                _ => {}
            }
        }
    }

    fn end(&mut self, _: &Ending, _: &Ledger, notes: &mut Notes) {
        let sessions: Vec<String> = self.cancelled.keys().cloned().collect();
        for session in sessions {
            self.forget_turn(&session, notes);
        }
    }
}

impl Turns {
    fn judge(
        &mut self,
        session: &str,
        kind: &str,
        update: &Value,
        number: u64,
        ledger: &Ledger,
        notes: &mut Notes,
    ) {
        match kind {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                self.late(session, kind, number, ledger, notes);
                self.chunk(session, kind, update, number, notes);
            }
            "tool_call" | "tool_call_update" | "plan" => {
                self.late(session, kind, number, ledger, notes);
            }
            "usage_update" => cost(update, number, notes),
            "notice" => {
                self.noticed = true;
                gate("NO-01", kind, "/session/notices", number, ledger, notes);
            }
            "compaction_update" | "compaction_summary_chunk" => {
                self.compacted = true;
                gate("NO-02", kind, "/session/compaction", number, ledger, notes);
            }
            _ => {}
        }
    }

    /// Reports a part of a turn that is sent after the turn is over.
    fn late(&mut self, id: &str, kind: &str, number: u64, ledger: &Ledger, notes: &mut Notes) {
        let Some(session) = ledger.sessions.get(id) else {
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
        notes.broken("PT-10", what, &[number, answer]);
    }

    fn forget_turn(&mut self, session: &str, notes: &mut Notes) {
        if self.cancelled.remove(session) == Some(false) {
            notes.held("PT-10");
        }
    }

    fn chunk(&mut self, session: &str, kind: &str, update: &Value, number: u64, notes: &mut Notes) {
        let Some(Value::String(id)) = update.get("messageId") else {
            return;
        };
        let key = (session.to_owned(), kind.to_owned());
        if self.messages.len() > REMEMBERED {
            self.messages.clear();
        }
        let messages = self.messages.entry(key).or_default();
        match &messages.current {
            Some((current, _)) if current == id => notes.held("PT-18"),
            Some((current, line)) if messages.over.contains(id) => {
                let what = format!(
                    "a chunk belongs to the message \"{id}\" again, after chunks of \"{current}\"; \
                     a new message id ends the previous message"
                );
                notes.broken("PT-18", what, &[number, *line]);
            }
            Some(_) => notes.held("PT-18"),
            None => {}
        }
        if messages.over.len() > REMEMBERED {
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
    fn hold_gates(&mut self, ledger: &Ledger, notes: &mut Notes) {
        if !ledger.client_can("/session/notices") && !self.noticed {
            notes.held("NO-01");
        }
        if !ledger.client_can("/session/compaction") && !self.compacted {
            notes.held("NO-02");
        }
        self.noticed = false;
        self.compacted = false;
    }
}

fn gate(
    statement: &'static str,
    kind: &str,
    capability: &str,
    number: u64,
    ledger: &Ledger,
    notes: &mut Notes,
) {
    if ledger.client_can(capability) {
        return;
    }
    let what = format!(
        "`{kind}` is sent, but the client did not announce `{}`",
        capability.trim_start_matches('/').replace('/', ".")
    );
    notes.broken(statement, what, &with_start(number, ledger));
}

/// The line, and the line of the client's capabilities.
pub fn with_start(number: u64, ledger: &Ledger) -> Vec<u64> {
    [Some(number), ledger.started]
        .into_iter()
        .flatten()
        .collect()
}

fn cost(update: &Value, number: u64, notes: &mut Notes) {
    let Some(Value::String(currency)) = update.pointer("/cost/currency") else {
        return;
    };
    let is_code = currency.len() == 3 && currency.bytes().all(|b| b.is_ascii_uppercase());
    if !is_code {
        let at = "/params/update/cost/currency";
        let what = format!("`{at}` is \"{currency}\"; expected an ISO 4217 code such as USD");
        notes.broken_at("PT-19", at, what, &[number]);
    }
}
