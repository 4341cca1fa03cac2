//! Who answers what: TR-08, TR-09, TR-10, TR-17, CR-01, CR-02, EX-03.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Asked, Ending, Ledger, Monitor, Notes, Seen, id_key};
use agentproto_wire::{Direction, Flaw, Kind};

#[derive(Default)]
pub struct Ids {
    /// Our notifications: method and line of those that nothing was blamed on yet.
    told: Vec<(String, u64)>,
    /// Our requests that were answered under another id.
    misnamed: HashSet<String>,
    /// Answers without an id that could be meant for more than one request.
    nameless: usize,
    /// Requests that we cancelled by `$/cancel_request`.
    cancelled: HashMap<String, u64>,
    /// Two of the agent's requests had one id, so our answer to one may have gone to the other.
    is_mixed_up: bool,
    /// Requests of the agent that are open.
    open: u64,
}

/// So many notifications of ours are remembered.
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
                // Told already: there is no id to judge.
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
        // What the agent owes is its own fault where everything else came to its end in order, or
        // where the client waited for just this in vain.
        let mut open: Vec<&Asked> = ledger.to_agent.values().collect();
        open.retain(|asked| ending.is_orderly || ledger.given_up.contains(&id_key(&asked.id)));
        open.retain(|asked| asked.answers < asked.expected && !asked.is_flawed);
        open.retain(|asked| !self.misnamed.contains(&id_key(&asked.id)));
        // A turn may wait for ever for an answer that its twin got.
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
            // With nothing else open, no two ids can be the same.
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
            "`{}` with the id {} is answered again; a request gets exactly one response",
            asked.method, asked.id
        );
        let mut lines = vec![number, asked.line];
        lines.extend(asked.answered);
        notes.broken(statement, what, &lines);
    }

    /// A response to nothing that we asked under that id.
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
                    "the notification `{method}` is answered with an error; notifications get no \
                     response"
                );
                notes.broken(told_statement(&method), what, &[number, line]);
                return;
            }
        }
        let Some(asked) = ledger.meant(id) else {
            self.nameless += usize::from(id.is_null());
            let what = format!("a response has the id {id}, which no request of the client has");
            notes.broken("TR-08", what, &[number]);
            return;
        };
        self.misnamed.insert(id_key(&asked.id));
        let what = format!(
            "`{}` was sent with the id {} and is answered with the id {id}; it must be the same, \
             of the same JSON type",
            asked.method, asked.id
        );
        notes.broken("TR-08", what, &[number, asked.line]);
    }
}

/// The statement that forbids to answer such a notification.
fn told_statement(method: &str) -> &'static str {
    match method {
        "$/cancel_request" => "CR-02",
        _ => "TR-10",
    }
}
