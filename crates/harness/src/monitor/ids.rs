//! Requests and responses: TR-08, TR-09, TR-10, TR-17, CR-01, CR-02, EX-03.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Asked, Ending, Ledger, Monitor, Notes, Seen, id_key};
use agentproto_wire::{Direction, Flaw, Kind};

#[derive(Default)]
pub struct Ids {
    /// Notifications of the client (method and line) that no response was attributed to yet.
    told: Vec<(String, u64)>,
    /// Requests of the client that were answered with a wrong id.
    misnamed: HashSet<String>,
    /// Number of responses without an id that could belong to more than one request.
    nameless: usize,
    /// Requests that the client canceled with `$/cancel_request`, with the line.
    cancelled: HashMap<String, u64>,
    /// Whether two open requests of the agent had the same id. Then a response may have reached the
    /// wrong one.
    is_mixed_up: bool,
    /// Number of open requests of the agent.
    open: u64,
}

/// Maximum number of client notifications that are remembered.
const TOLD: usize = 64;

impl Monitor for Ids {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        let (Some(json), Some(envelope)) = (seen.json, seen.envelope) else {
            return;
        };
        let number = seen.line.number;
        match (seen.line.direction, &envelope.kind) {
            (Direction::ToAgent, Kind::Notification { method }) if envelope.flaws.is_empty() => {
                if method == "$/cancel_request"
                    && let Some(id) = json.pointer("/params/requestId")
                {
                    self.cancelled.insert(id_key(id), number);
                }
                self.told.push((method.clone(), number));
                if self.told.len() > TOLD {
                    self.told.remove(0);
                }
            }
            (Direction::ToAgent, Kind::Response { .. })
                if seen.answers.is_some_and(|asked| asked.answers == 0) =>
            {
                self.open = self.open.saturating_sub(1);
            }
            (Direction::FromAgent, Kind::Request { id, .. }) => {
                self.they_ask(id, number, ledger, notes);
            }
            (Direction::FromAgent, Kind::Response { id, is_error }) => {
                // The missing id is already reported.
                if envelope.flaws.contains(&Flaw::NoId) {
                    return;
                }
                match seen.answers {
                    Some(asked) => self.answer(asked, number, notes),
                    None => self.stray(id, *is_error, number, ledger, notes),
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, ending: &Ending, ledger: &Ledger, notes: &mut Notes) {
        for (method, _) in self.told.drain(..) {
            notes.held(told_statement(&method));
        }
        // A missing response is the agent's fault in two cases: the connection ended in an orderly
        // way, or the client waited for this response until the time limit.
        let mut open: Vec<&Asked> = ledger.to_agent.values().collect();
        open.retain(|asked| ending.is_orderly || ledger.given_up.contains(&id_key(&asked.id)));
        open.retain(|asked| asked.answers < asked.expected && !asked.is_flawed);
        open.retain(|asked| !self.misnamed.contains(&id_key(&asked.id)));
        // A turn may wait forever for a response that another request with the same id got.
        open.retain(|asked| !(self.is_mixed_up && asked.method == "session/prompt"));
        open.sort_by_key(|asked| asked.line);
        for asked in open.into_iter().skip(self.nameless) {
            let key = id_key(&asked.id);
            let what = format!(
                "`{}` with the id {} was never answered",
                asked.method, asked.id
            );
            match self.cancelled.get(&key) {
                Some(by) => notes.broken("CR-01", what, &[asked.line, *by]),
                None if asked.method.starts_with('_') => {
                    notes.broken("EX-03", what, &[asked.line]);
                }
                None => notes.broken("TR-09", what, &[asked.line]),
            }
        }
    }
}

impl Ids {
    fn they_ask(&mut self, id: &Value, number: u64, ledger: &Ledger, notes: &mut Notes) {
        match ledger.from_agent.get(&id_key(id)) {
            Some(earlier) if earlier.answers == 0 => {
                self.is_mixed_up = true;
                let what = format!(
                    "the id {id} is used for a second request while the first (`{}`) is still open",
                    earlier.method
                );
                notes.broken("TR-17", what, &[number, earlier.line]);
            }
            // Ids can only collide if another request is open.
            _ if self.open > 0 => notes.held("TR-17"),
            _ => {}
        }
        self.open += 1;
    }

    fn answer(&mut self, asked: &Asked, number: u64, notes: &mut Notes) {
        let cancelled = self.cancelled.get(&id_key(&asked.id));
        if asked.method.starts_with('_') {
            notes.held("EX-03");
        }
        let statement = match cancelled {
            Some(_) => "CR-01",
            None => "TR-09",
        };
        if asked.answers < asked.expected {
            notes.held("TR-08");
            notes.held(statement);
            return;
        }
        let what = format!(
            "`{}` with the id {} is answered again; a request must get exactly one response",
            asked.method, asked.id
        );
        let mut lines = vec![number, asked.line];
        lines.extend(asked.answered);
        notes.broken(statement, what, &lines);
    }

    /// A response whose id matches no request of the client.
    fn stray(
        &mut self,
        id: &Value,
        is_error: bool,
        number: u64,
        ledger: &Ledger,
        notes: &mut Notes,
    ) {
        if id.is_null() && is_error {
            if ledger.nonsense_answered < ledger.nonsense_sent {
                return;
            }
            if let Some((method, line)) = self.told.pop() {
                let what = format!(
                    "the notification `{method}` is answered with an error; notifications must not \
                     be answered"
                );
                notes.broken(told_statement(&method), what, &[number, line]);
                return;
            }
        }
        let Some(asked) = ledger.meant(id) else {
            self.nameless += usize::from(id.is_null());
            let what =
                format!("a response has the id {id}, which matches no request of the client");
            notes.broken("TR-08", what, &[number]);
            return;
        };
        self.misnamed.insert(id_key(&asked.id));
        let what = format!(
            "`{}` was sent with the id {} but answered with the id {id}; it must be the same value \
             of the same JSON type",
            asked.method, asked.id
        );
        notes.broken("TR-08", what, &[number, asked.line]);
    }
}

/// The requirement that forbids answering this notification.
fn told_statement(method: &str) -> &'static str {
    match method {
        "$/cancel_request" => "CR-02",
        _ => "TR-10",
    }
}
