//! Replays the recorded agent to a live client. Each message of the client is found in the
//! recording by method and order. Then the recorded replies are sent with the client's own ids.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value, json};

use crate::envelope::{Envelope, Kind};
use crate::renames::Renames;
use crate::script::{Entry, process_said, with_id};
use crate::transcript::{Direction, Transcript};

/// The next action of the replayed agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Write `bytes` to stdout. The agent waited for `pause` before it.
    Say { bytes: Vec<u8>, pause: Duration },
    /// Write `bytes` to stderr. The agent waited for `pause` before it.
    Complain { bytes: Vec<u8>, pause: Duration },
    /// Wait until the client sends something.
    Listen,
    /// The recording is complete, so the client may end.
    Over,
    /// Exit with this code, because the recorded process exited by itself.
    Exit(i32),
}

/// The result of a line from the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    /// Response to send at once.
    pub reply: Option<Value>,
    /// Message for stderr.
    pub complaint: Option<String>,
}

struct Place {
    entry: Entry,
    at: Duration,
    /// Whether the client has sent it, or it is no longer expected.
    is_done: bool,
}

/// Replays an agent.
pub struct Player<'t> {
    transcript: &'t Transcript,
    places: Vec<Place>,
    cursor: usize,
    last_at: Duration,
    /// The current ids of the client, by the recorded ids.
    ids: HashMap<String, Value>,
    renames: Renames,
    /// Whether the recorded client has closed the agent's stdin.
    input_closed: bool,
    /// Number of times that the client did not follow the recording.
    pub deviations: u64,
}

impl<'t> Player<'t> {
    /// Replays the given lines of a transcript.
    pub fn new(transcript: &'t Transcript, lines: RangeInclusive<u64>) -> Player<'t> {
        let lines = lines.filter_map(|number| transcript.line(number));
        let places = lines.map(|line| Place {
            entry: Entry::of(&line),
            at: line.at,
            is_done: false,
        });
        let places: Vec<Place> = places.collect();
        Player {
            transcript,
            last_at: places.first().map(|p| p.at).unwrap_or_default(),
            places,
            cursor: 0,
            ids: HashMap::new(),
            renames: Renames::default(),
            input_closed: false,
            deviations: 0,
        }
    }

    /// Returns the next action.
    pub fn act(&mut self) -> Act {
        loop {
            let Some(place) = self.places.get(self.cursor) else {
                return Act::Over;
            };
            let (entry, at) = (&place.entry, place.at);
            if entry.is_to_agent() && !place.is_done {
                return Act::Listen;
            }
            let pause = at.saturating_sub(self.last_at);
            self.last_at = at;
            self.cursor += 1;
            match entry.direction {
                Direction::ToAgent => {}
                Direction::FromAgent => {
                    let bytes = self.told(entry);
                    return Act::Say { bytes, pause };
                }
                Direction::Stderr => {
                    let bytes = self.bytes(entry);
                    return Act::Complain { bytes, pause };
                }
                Direction::Process => {
                    let line = self.transcript.line(entry.number);
                    let said = |member| line.as_ref().and_then(|line| process_said(line, member));
                    if said("input").is_some() {
                        self.input_closed = true;
                    } else if let Some(exit) = said("exit") {
                        let code = exit.get("code").and_then(Value::as_i64);
                        let code = code.and_then(|code| i32::try_from(code).ok());
                        // If the recorded client ended the agent, this client also ends it.
                        if let (Some(code), false) = (code, self.input_closed) {
                            let is_last = self.cursor >= self.places.len();
                            if code != 0 || !is_last {
                                return Act::Exit(code);
                            }
                        }
                    }
                }
            }
        }
    }

    fn bytes(&self, entry: &Entry) -> Vec<u8> {
        let line = self.transcript.line(entry.number);
        line.map_or_else(Vec::new, |line| {
            let mut bytes = line.bytes;
            bytes.extend(line.ended.then_some(b'\n'));
            bytes
        })
    }

    /// A line of the agent with the ids and names of the current client.
    fn told(&self, entry: &Entry) -> Vec<u8> {
        let mut bytes = self.bytes(entry);
        if let Some(Kind::Response { id, .. }) = &entry.kind
            && let Some(live) = self.ids.get(&id.to_string())
            && live != id
        {
            bytes = with_id(&bytes, live);
        }
        if !self.renames.is_empty()
            && let Ok(mut value) = serde_json::from_slice::<Value>(&bytes)
            && self.renames.apply(&mut value)
        {
            bytes = format!("{value}\n").into_bytes();
        }
        bytes
    }

    /// Processes a line from the client.
    pub fn hear(&mut self, line: &[u8]) -> Heard {
        let json: Value = match serde_json::from_slice(line) {
            Ok(json) => json,
            Err(error) => return self.hear_raw(&error.to_string()),
        };
        match Envelope::of(&json).kind {
            Kind::Request { id, method } => self.hear_request(&id, &method, &json),
            Kind::Notification { method } => {
                let fits =
                    |kind: &Kind| matches!(kind, Kind::Notification { method: m } if *m == method);
                match self.find(fits) {
                    Some(at) => self.take(at),
                    None => self.strange(&format!("the notification {method}")),
                }
            }
            Kind::Response { id, is_error } => {
                let fits = |kind: &Kind| matches!(kind, Kind::Response { id: i, .. } if *i == id);
                let Some(at) = self.find(fits) else {
                    return self.strange(&format!("a response to request {id}"));
                };
                let recorded = self.places.get(at).and_then(|p| p.entry.kind.as_ref());
                let same =
                    matches!(recorded, Some(Kind::Response { is_error: e, .. }) if *e == is_error);
                let number = self.places.get(at).map_or(0, |p| p.entry.number);
                let heard = self.take(at);
                if same {
                    return heard;
                }
                self.deviations += 1;
                let (now, then) = match is_error {
                    true => ("an error", "a result"),
                    false => ("a result", "an error"),
                };
                let complaint = format!(
                    "the client responded to request {id} with {now}, but the recording has {then} (line {number})"
                );
                Heard {
                    complaint: Some(complaint),
                    ..heard
                }
            }
            Kind::Other => self.hear_raw("not a JSON-RPC message"),
        }
    }

    fn hear_request(&mut self, id: &Value, method: &str, json: &Value) -> Heard {
        let fits = |kind: &Kind| matches!(kind, Kind::Request { method: m, .. } if m == method);
        let Some(at) = self.find(fits) else {
            let strange = self.strange(&format!("the request {method}"));
            return refused(strange, id, -32601);
        };
        // Whether the recorded agent sent anything between two entries. If so, the client must
        // have sent the first before the second.
        let between = |from: usize, to: usize| {
            let places = self.places.get(from..to).unwrap_or_default();
            places
                .iter()
                .any(|p| p.entry.direction == Direction::FromAgent)
        };
        let mut passed = Vec::new();
        for index in self.cursor..at {
            let Some(place) = self.places.get(index) else {
                break;
            };
            if !place.entry.is_to_agent() || place.is_done || !between(index, at) {
                continue;
            }
            match place.entry.kind {
                Some(Kind::Request { .. }) => {
                    let strange = self.strange(&format!("the request {method}"));
                    return refused(strange, id, -32600);
                }
                // A response may come later, because a person decides.
                Some(Kind::Response { .. }) => {}
                _ => passed.push(index),
            }
        }
        let mut complaint = None;
        for index in passed {
            if let Some(place) = self.places.get_mut(index) {
                place.is_done = true;
                self.deviations += 1;
                complaint = Some(format!(
                    "the client sent the request {method} without sending {} first (line {} of the recording)",
                    place.entry.words(),
                    place.entry.number
                ));
            }
        }
        self.learn(at, id, json);
        self.take(at);
        Heard {
            reply: None,
            complaint,
        }
    }

    /// Maps the recorded ids, sessions and directories to those of the current client.
    fn learn(&mut self, at: usize, id: &Value, json: &Value) {
        let Some(place) = self.places.get(at) else {
            return;
        };
        if let Some(Kind::Request { id: recorded, .. }) = &place.entry.kind {
            self.ids.insert(recorded.to_string(), id.clone());
        }
        let line = self.transcript.line(place.entry.number);
        let old: Option<Value> = line.and_then(|line| serde_json::from_slice(&line.bytes).ok());
        let Some(old) = old else { return };
        self.renames.learn(&old, json);
        let cwd = |json: &Value| {
            let cwd = json.pointer("/params/cwd").and_then(Value::as_str);
            cwd.map(str::to_owned)
        };
        if let (Some(old), Some(new)) = (cwd(&old), cwd(json)) {
            self.renames.place(&old, &new);
        }
    }

    fn hear_raw(&mut self, why: &str) -> Heard {
        let next = self
            .places
            .iter()
            .skip(self.cursor)
            .position(|p| p.entry.is_to_agent() && !p.is_done);
        let at = next.map(|offset| self.cursor + offset);
        let is_raw = |at: &usize| self.places.get(*at).is_some_and(|p| p.entry.kind.is_none());
        match at.filter(is_raw) {
            Some(at) => self.take(at),
            None => {
                let mut heard = self.strange(&format!("an invalid line ({why})"));
                heard.reply = Some(json!({
                    "jsonrpc": "2.0",
                    "id": null,
                    "error": {"code": -32700, "message": format!("Parse error: {why}")},
                }));
                heard
            }
        }
    }

    fn find(&self, fits: impl Fn(&Kind) -> bool) -> Option<usize> {
        let rest = self.places.iter().enumerate().skip(self.cursor);
        let mut open = rest.filter(|(_, p)| p.entry.is_to_agent() && !p.is_done);
        open.find(|(_, p)| p.entry.kind.as_ref().is_some_and(&fits))
            .map(|(index, _)| index)
    }

    fn take(&mut self, at: usize) -> Heard {
        if let Some(place) = self.places.get_mut(at) {
            place.is_done = true;
        }
        Heard::default()
    }

    fn strange(&mut self, what: &str) -> Heard {
        self.deviations += 1;
        let complaint = format!("the client sent {what}, but {}", self.awaited());
        Heard {
            reply: None,
            complaint: Some(complaint),
        }
    }

    /// What the recorded client sends next, for people.
    fn awaited(&self) -> String {
        let mut rest = self.places.iter().skip(self.cursor);
        match rest.find(|p| p.entry.is_to_agent() && !p.is_done) {
            Some(place) => format!(
                "the recording continues with {} (line {})",
                place.entry.words(),
                place.entry.number
            ),
            None => "the recorded client sends nothing more".to_owned(),
        }
    }

    /// Handles the end of the client. Returns a message if the recording is not complete.
    pub fn ended(&mut self) -> Option<String> {
        let rest = self.places.iter().skip(self.cursor);
        let mut left = rest.filter(|p| p.entry.is_to_agent() && !p.is_done);
        left.next()?;
        self.deviations += 1;
        Some(format!("the client ended, but {}", self.awaited()))
    }

    /// Exit code of the recorded process.
    pub fn exit_code(&self) -> Option<i32> {
        let lines = self.places.iter().rev();
        let mut lines = lines.filter(|p| p.entry.direction == Direction::Process);
        let exit = lines.find_map(|p| {
            let line = self.transcript.line(p.entry.number)?;
            process_said(&line, "exit")
        })?;
        let code = exit.get("code").and_then(Value::as_i64)?;
        i32::try_from(code).ok()
    }
}

fn refused(heard: Heard, id: &Value, code: i64) -> Heard {
    let message = heard.complaint.clone().unwrap_or_default();
    Heard {
        reply: Some(json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": {"code": code, "message": format!("not in the recording: {message}")},
        })),
        ..heard
    }
}

#[cfg(test)]
mod tests;
