//! Replays the recorded agent to a live client. Each message of the client is found in the
//! recording by method and order. Then the recorded replies are sent with the client's own ids.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value, json};

use crate::envelope::{Envelope, MessageKind};
use crate::renames::Renames;
use crate::script::{ScriptEntry, process_event, with_id};
use crate::transcript::{Direction, Transcript};

/// The next action of the replayed agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayAction {
    /// Write a line to stdout.
    Stdout {
        /// Bytes of the line, with its line feed if it had one.
        bytes: Vec<u8>,
        /// Time that the recorded agent waited before the line.
        pause: Duration,
    },
    /// Write a line to stderr.
    Stderr {
        /// Bytes of the line, with its line feed if it had one.
        bytes: Vec<u8>,
        /// Time that the recorded agent waited before the line.
        pause: Duration,
    },
    /// Wait until the client sends something.
    Wait,
    /// The recording is complete, so the client may end.
    Done,
    /// Exit with this code, because the recorded process exited by itself.
    Exit(i32),
}

/// The result of a line from the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reaction {
    /// Response to send at once.
    pub reply: Option<Value>,
    /// Message for stderr.
    pub warning: Option<String>,
}

struct ReplayStep {
    entry: ScriptEntry,
    at: Duration,
    /// Whether the client has sent it, or it is no longer expected.
    is_done: bool,
}

/// Replays an agent.
pub struct AgentReplay<'t> {
    transcript: &'t Transcript,
    steps: Vec<ReplayStep>,
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

impl<'t> AgentReplay<'t> {
    /// Replays the given lines of a transcript.
    pub fn new(transcript: &'t Transcript, lines: RangeInclusive<u64>) -> AgentReplay<'t> {
        let lines = lines.filter_map(|number| transcript.line(number));
        let steps = lines.map(|line| ReplayStep {
            entry: ScriptEntry::of(&line),
            at: line.at,
            is_done: false,
        });
        let steps: Vec<ReplayStep> = steps.collect();
        AgentReplay {
            transcript,
            last_at: steps.first().map(|p| p.at).unwrap_or_default(),
            steps,
            cursor: 0,
            ids: HashMap::new(),
            renames: Renames::default(),
            input_closed: false,
            deviations: 0,
        }
    }

    /// Returns the next action.
    pub fn next_action(&mut self) -> ReplayAction {
        loop {
            let Some(step) = self.steps.get(self.cursor) else {
                return ReplayAction::Done;
            };
            let (entry, at) = (&step.entry, step.at);
            if entry.is_to_agent() && !step.is_done {
                return ReplayAction::Wait;
            }
            let pause = at.saturating_sub(self.last_at);
            self.last_at = at;
            self.cursor += 1;
            match entry.direction {
                Direction::ToAgent => {}
                Direction::FromAgent => {
                    let bytes = self.line_for_client(entry);
                    return ReplayAction::Stdout { bytes, pause };
                }
                Direction::Stderr => {
                    let bytes = self.bytes(entry);
                    return ReplayAction::Stderr { bytes, pause };
                }
                Direction::Process => {
                    let line = self.transcript.line(entry.number);
                    let event = |member| line.as_ref().and_then(|line| process_event(line, member));
                    if event("input").is_some() {
                        self.input_closed = true;
                    } else if let Some(exit) = event("exit") {
                        let code = exit.get("code").and_then(Value::as_i64);
                        let code = code.and_then(|code| i32::try_from(code).ok());
                        // If the recorded client ended the agent, this client also ends it.
                        if let (Some(code), false) = (code, self.input_closed) {
                            let is_last = self.cursor >= self.steps.len();
                            if code != 0 || !is_last {
                                return ReplayAction::Exit(code);
                            }
                        }
                    }
                }
            }
        }
    }

    fn bytes(&self, entry: &ScriptEntry) -> Vec<u8> {
        let line = self.transcript.line(entry.number);
        line.map_or_else(Vec::new, |line| {
            let mut bytes = line.bytes;
            bytes.extend(line.ended.then_some(b'\n'));
            bytes
        })
    }

    /// A line of the agent with the ids and names of the current client.
    fn line_for_client(&self, entry: &ScriptEntry) -> Vec<u8> {
        let mut bytes = self.bytes(entry);
        if let Some(MessageKind::Response { id, .. }) = &entry.kind
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
    pub fn on_line(&mut self, line: &[u8]) -> Reaction {
        let json: Value = match serde_json::from_slice(line) {
            Ok(json) => json,
            Err(error) => return self.on_invalid_line(&error.to_string()),
        };
        match Envelope::of(&json).kind {
            MessageKind::Request { id, method } => self.on_request(&id, &method, &json),
            MessageKind::Notification { method } => {
                let fits = |kind: &MessageKind| matches!(kind, MessageKind::Notification { method: m } if *m == method);
                match self.find(fits) {
                    Some(at) => self.take(at),
                    None => self.deviation(&format!("the notification {method}")),
                }
            }
            MessageKind::Response { id, is_error } => {
                let fits = |kind: &MessageKind| matches!(kind, MessageKind::Response { id: i, .. } if *i == id);
                let Some(at) = self.find(fits) else {
                    return self.deviation(&format!("a response to request {id}"));
                };
                let recorded = self.steps.get(at).and_then(|p| p.entry.kind.as_ref());
                let same = matches!(recorded, Some(MessageKind::Response { is_error: e, .. }) if *e == is_error);
                let number = self.steps.get(at).map_or(0, |p| p.entry.number);
                let reaction = self.take(at);
                if same {
                    return reaction;
                }
                self.deviations += 1;
                let (now, then) = match is_error {
                    true => ("an error", "a result"),
                    false => ("a result", "an error"),
                };
                let warning = format!(
                    "the client responded to request {id} with {now}, but the recording has {then} (line {number})"
                );
                Reaction {
                    warning: Some(warning),
                    ..reaction
                }
            }
            MessageKind::Other => self.on_invalid_line("not a JSON-RPC message"),
        }
    }

    fn on_request(&mut self, id: &Value, method: &str, json: &Value) -> Reaction {
        let fits = |kind: &MessageKind| matches!(kind, MessageKind::Request { method: m, .. } if m == method);
        let Some(at) = self.find(fits) else {
            let deviation = self.deviation(&format!("the request {method}"));
            return with_error(deviation, id, -32601);
        };
        // Whether the recorded agent sent anything between two entries. If so, the client must
        // have sent the first before the second.
        let between = |from: usize, to: usize| {
            let steps = self.steps.get(from..to).unwrap_or_default();
            steps
                .iter()
                .any(|p| p.entry.direction == Direction::FromAgent)
        };
        let mut passed = Vec::new();
        for index in self.cursor..at {
            let Some(step) = self.steps.get(index) else {
                break;
            };
            if !step.entry.is_to_agent() || step.is_done || !between(index, at) {
                continue;
            }
            match step.entry.kind {
                Some(MessageKind::Request { .. }) => {
                    let deviation = self.deviation(&format!("the request {method}"));
                    return with_error(deviation, id, -32600);
                }
                // A response may come later, because a person decides.
                Some(MessageKind::Response { .. }) => {}
                _ => passed.push(index),
            }
        }
        let mut warning = None;
        for index in passed {
            if let Some(step) = self.steps.get_mut(index) {
                step.is_done = true;
                self.deviations += 1;
                warning = Some(format!(
                    "the client sent the request {method} without sending {} first (line {} of the recording)",
                    step.entry.describe(),
                    step.entry.number
                ));
            }
        }
        self.map_names(at, id, json);
        self.take(at);
        Reaction {
            reply: None,
            warning,
        }
    }

    /// Maps the recorded ids, sessions and directories to those of the current client.
    fn map_names(&mut self, at: usize, id: &Value, json: &Value) {
        let Some(step) = self.steps.get(at) else {
            return;
        };
        if let Some(MessageKind::Request { id: recorded, .. }) = &step.entry.kind {
            self.ids.insert(recorded.to_string(), id.clone());
        }
        let line = self.transcript.line(step.entry.number);
        let old: Option<Value> = line.and_then(|line| serde_json::from_slice(&line.bytes).ok());
        let Some(old) = old else { return };
        self.renames.learn(&old, json);
        let cwd = |json: &Value| {
            let cwd = json.pointer("/params/cwd").and_then(Value::as_str);
            cwd.map(str::to_owned)
        };
        if let (Some(old), Some(new)) = (cwd(&old), cwd(json)) {
            self.renames.add_directory(&old, &new);
        }
    }

    fn on_invalid_line(&mut self, why: &str) -> Reaction {
        let next = self
            .steps
            .iter()
            .skip(self.cursor)
            .position(|p| p.entry.is_to_agent() && !p.is_done);
        let at = next.map(|offset| self.cursor + offset);
        let is_raw = |at: &usize| self.steps.get(*at).is_some_and(|p| p.entry.kind.is_none());
        match at.filter(is_raw) {
            Some(at) => self.take(at),
            None => {
                let mut reaction = self.deviation(&format!("an invalid line ({why})"));
                reaction.reply = Some(json!({
                    "jsonrpc": "2.0",
                    "id": null,
                    "error": {"code": -32700, "message": format!("Parse error: {why}")},
                }));
                reaction
            }
        }
    }

    fn find(&self, fits: impl Fn(&MessageKind) -> bool) -> Option<usize> {
        let rest = self.steps.iter().enumerate().skip(self.cursor);
        let mut open = rest.filter(|(_, p)| p.entry.is_to_agent() && !p.is_done);
        open.find(|(_, p)| p.entry.kind.as_ref().is_some_and(&fits))
            .map(|(index, _)| index)
    }

    fn take(&mut self, at: usize) -> Reaction {
        if let Some(step) = self.steps.get_mut(at) {
            step.is_done = true;
        }
        Reaction::default()
    }

    fn deviation(&mut self, what: &str) -> Reaction {
        self.deviations += 1;
        let warning = format!("the client sent {what}, but {}", self.expected_next());
        Reaction {
            reply: None,
            warning: Some(warning),
        }
    }

    /// What the recorded client sends next, for people.
    fn expected_next(&self) -> String {
        let mut rest = self.steps.iter().skip(self.cursor);
        match rest.find(|p| p.entry.is_to_agent() && !p.is_done) {
            Some(step) => format!(
                "the recording continues with {} (line {})",
                step.entry.describe(),
                step.entry.number
            ),
            None => "the recorded client sends nothing more".to_owned(),
        }
    }

    /// Handles the end of the client. Returns a message if the recording is not complete.
    pub fn ended(&mut self) -> Option<String> {
        let rest = self.steps.iter().skip(self.cursor);
        let mut left = rest.filter(|p| p.entry.is_to_agent() && !p.is_done);
        left.next()?;
        self.deviations += 1;
        Some(format!("the client ended, but {}", self.expected_next()))
    }

    /// Exit code of the recorded process.
    pub fn exit_code(&self) -> Option<i32> {
        let lines = self.steps.iter().rev();
        let mut lines = lines.filter(|p| p.entry.direction == Direction::Process);
        let exit = lines.find_map(|p| {
            let line = self.transcript.line(p.entry.number)?;
            process_event(&line, "exit")
        })?;
        let code = exit.get("code").and_then(Value::as_i64)?;
        i32::try_from(code).ok()
    }
}

fn with_error(reaction: Reaction, id: &Value, code: i64) -> Reaction {
    let message = reaction.warning.clone().unwrap_or_default();
    Reaction {
        reply: Some(json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": {"code": code, "message": format!("not in the recording: {message}")},
        })),
        ..reaction
    }
}

#[cfg(test)]
mod tests;
