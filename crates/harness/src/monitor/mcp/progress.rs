//! Progress, and cancellations by the server: MCP-PROG-01 to -03, MCP-CANC-04.
//!
//! Whether a canceled request is answered must be decided by a case, because the response may
//! already be on its way.

use std::collections::HashMap;

use serde_json::Value;

use super::super::{ConversationState, Ending, LineView, Monitor, MonitorNotes, id_key};
use super::show;
use agentproto_wire::{Direction, MessageKind};

/// Maximum number of tokens that are remembered.
const TOKENS: usize = 10_000;

#[derive(Default)]
pub struct ProgressMonitor {
    /// Progress tokens of the client's requests.
    tokens: HashMap<String, Token>,
}

struct Token {
    request: String,
    line: u64,
    /// The last reported progress, and its line.
    last: Option<(f64, u64)>,
    /// The line of the response.
    answered: Option<u64>,
}

impl Monitor for ProgressMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let (Some(json), Some(envelope)) = (view.json, view.envelope) else {
            return;
        };
        let number = view.line.number;
        match (view.line.direction, &envelope.kind) {
            (Direction::ToAgent, MessageKind::Request { id, .. }) => {
                if let Some(token) = json.pointer("/params/_meta/progressToken")
                    && self.tokens.len() < TOKENS
                {
                    let token_of = Token {
                        request: id_key(id),
                        line: number,
                        last: None,
                        answered: None,
                    };
                    self.tokens.insert(id_key(token), token_of);
                }
            }
            (Direction::FromAgent, MessageKind::Notification { method }) => match method.as_str() {
                "notifications/progress" => self.progress(json, number, notes),
                "notifications/cancelled" => cancels(json, number, state, notes),
                _ => {}
            },
            (Direction::FromAgent, MessageKind::Response { id, .. }) => {
                self.answer(&id_key(id), json, number);
            }
            _ => {}
        }
    }

    fn on_end(&mut self, _: &Ending, _: &ConversationState, notes: &mut MonitorNotes) {
        let is_reported = |token: &&Token| token.last.is_some() && token.answered.is_some();
        for _ in self.tokens.values().filter(is_reported) {
            notes.pass("MCP-PROG-03");
        }
    }
}

impl ProgressMonitor {
    fn answer(&mut self, id: &str, json: &Value, number: u64) {
        // A task continues after the response that names it.
        if json.pointer("/result/task").is_some() {
            return;
        }
        for token in self.tokens.values_mut().filter(|t| t.request == id) {
            token.answered.get_or_insert(number);
        }
    }

    fn progress(&mut self, json: &Value, number: u64, notes: &mut MonitorNotes) {
        let named = json.pointer("/params/progressToken");
        let token = named.and_then(|token| self.tokens.get_mut(&id_key(token)));
        let Some(token) = token else {
            let what = format!(
                "progress names the token {}, which is not in any request of the client",
                show(named)
            );
            notes.violation("MCP-PROG-01", what, &[number]);
            return;
        };
        if let Some(answered) = token.answered {
            let what = format!(
                "progress of the token {} is sent after the request was answered",
                show(named)
            );
            notes.violation("MCP-PROG-03", what, &[number, answered, token.line]);
            return;
        }
        notes.pass("MCP-PROG-01");
        let progress = json.pointer("/params/progress");
        let Some(now) = progress.and_then(Value::as_f64) else {
            let what = format!("`progress` is {}; it must be a number", show(progress));
            notes.violation("MCP-PROG-02", what, &[number]);
            return;
        };
        match token.last {
            Some((before, line)) if now <= before => {
                let what = format!("progress goes from {before} to {now}; it must increase");
                notes.violation("MCP-PROG-02", what, &[line, number]);
            }
            Some(_) => notes.pass("MCP-PROG-02"),
            None => {}
        }
        token.last = Some((now, number));
    }
}

/// Checks that the server cancels only its own requests.
fn cancels(json: &Value, number: u64, state: &ConversationState, notes: &mut MonitorNotes) {
    let id = json.pointer("/params/requestId");
    match id.is_some_and(|id| state.from_agent.contains_key(&id_key(id))) {
        true => notes.pass("MCP-CANC-04"),
        false => {
            let what = format!(
                "the server cancels the request {}, which it never sent",
                show(id)
            );
            notes.violation("MCP-CANC-04", what, &[number]);
        }
    }
}
