//! Progress, and cancellations by the server: MCP-PROG-01 to -03, MCP-CANC-04.
//!
//! Whether a canceled request is answered must be decided by a case, because the response may
//! already be on its way.

use std::collections::HashMap;

use serde_json::Value;

use super::super::{Ending, Ledger, Monitor, Notes, Seen, id_key};
use super::show;
use agentproto_wire::{Direction, Kind};

/// Maximum number of tokens that are remembered.
const TOKENS: usize = 10_000;

#[derive(Default)]
pub struct Work {
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

impl Monitor for Work {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        let (Some(json), Some(envelope)) = (seen.json, seen.envelope) else {
            return;
        };
        let number = seen.line.number;
        match (seen.line.direction, &envelope.kind) {
            (Direction::ToAgent, Kind::Request { id, .. }) => {
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
            (Direction::FromAgent, Kind::Notification { method }) => match method.as_str() {
                "notifications/progress" => self.progress(json, number, notes),
                "notifications/cancelled" => cancels(json, number, ledger, notes),
                _ => {}
            },
            (Direction::FromAgent, Kind::Response { id, .. }) => {
                self.answer(&id_key(id), json, number);
            }
            _ => {}
        }
    }

    fn end(&mut self, _: &Ending, _: &Ledger, notes: &mut Notes) {
        let told = |token: &&Token| token.last.is_some() && token.answered.is_some();
        for _ in self.tokens.values().filter(told) {
            notes.held("MCP-PROG-03");
        }
    }
}

impl Work {
    fn answer(&mut self, id: &str, json: &Value, number: u64) {
        // A task continues after the response that names it.
        if json.pointer("/result/task").is_some() {
            return;
        }
        for token in self.tokens.values_mut().filter(|t| t.request == id) {
            token.answered.get_or_insert(number);
        }
    }

    fn progress(&mut self, json: &Value, number: u64, notes: &mut Notes) {
        let named = json.pointer("/params/progressToken");
        let token = named.and_then(|token| self.tokens.get_mut(&id_key(token)));
        let Some(token) = token else {
            let what = format!(
                "progress names the token {}, which is not in any request of the client",
                show(named)
            );
            notes.broken("MCP-PROG-01", what, &[number]);
            return;
        };
        if let Some(answered) = token.answered {
            let what = format!(
                "progress of the token {} is sent after the request was answered",
                show(named)
            );
            notes.broken("MCP-PROG-03", what, &[number, answered, token.line]);
            return;
        }
        notes.held("MCP-PROG-01");
        let progress = json.pointer("/params/progress");
        let Some(now) = progress.and_then(Value::as_f64) else {
            let what = format!("`progress` is {}; it must be a number", show(progress));
            notes.broken("MCP-PROG-02", what, &[number]);
            return;
        };
        match token.last {
            Some((before, line)) if now <= before => {
                let what = format!("progress goes from {before} to {now}; it must increase");
                notes.broken("MCP-PROG-02", what, &[line, number]);
            }
            Some(_) => notes.held("MCP-PROG-02"),
            None => {}
        }
        token.last = Some((now, number));
    }
}

/// Checks that the server cancels only its own requests.
fn cancels(json: &Value, number: u64, ledger: &Ledger, notes: &mut Notes) {
    let id = json.pointer("/params/requestId");
    match id.is_some_and(|id| ledger.from_agent.contains_key(&id_key(id))) {
        true => notes.held("MCP-CANC-04"),
        false => {
            let what = format!(
                "the server cancels the request {}, which it never sent",
                show(id)
            );
            notes.broken("MCP-CANC-04", what, &[number]);
        }
    }
}
