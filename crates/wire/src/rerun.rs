//! Replays the recorded client to a live agent. Each message is sent once the messages have
//! arrived that came before it in the recording. The agent's requests get the recorded responses.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::envelope::{Envelope, MessageKind};
use crate::renames::Renames;
use crate::script::{ScriptEntry, with_id};
use crate::transcript::{Direction, Transcript};

/// The next action of the replayed client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAction {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Wait for a message. The text says which, for people.
    Wait(String),
    /// Everything is sent, and all requests with a recorded response have a response.
    Done,
}

/// A request of the live agent, matched to a recorded one.
struct PendingResponse {
    request: usize,
    response: usize,
    id: Value,
}

/// Replays a client.
pub struct ClientReplay<'t> {
    transcript: &'t Transcript,
    entries: Vec<ScriptEntry>,
    /// Index of the response to each request of either side.
    responses: HashMap<usize, usize>,
    /// Recorded requests of the agent that the live agent has not sent yet, by method.
    agent_requests: HashMap<String, VecDeque<usize>>,
    /// Index of the next line of the client that is not a response.
    cursor: usize,
    /// Indexes of the client's requests without a response, by id.
    open: HashMap<String, usize>,
    request: HashSet<usize>,
    pending: Vec<PendingResponse>,
    /// Number of messages from the agent since the last line that was sent.
    received: usize,
    renames: Renames,
    /// Deviations from the recording, for people.
    pub notes: Vec<String>,
}

impl<'t> ClientReplay<'t> {
    /// Replays the given lines of a transcript.
    pub fn new(transcript: &'t Transcript, lines: RangeInclusive<u64>) -> ClientReplay<'t> {
        let lines = lines.filter_map(|number| transcript.line(number));
        let entries: Vec<ScriptEntry> = lines.map(|line| ScriptEntry::of(&line)).collect();
        let mut agent_requests: HashMap<String, VecDeque<usize>> = HashMap::new();
        let mut responses = HashMap::new();
        // Go backward: the next response with the id of a request belongs to it.
        let mut next: HashMap<(bool, String), usize> = HashMap::new();
        for (at, entry) in entries.iter().enumerate().rev() {
            let is_ours = entry.is_to_agent();
            match &entry.kind {
                Some(MessageKind::Response { id, .. }) => {
                    next.insert((!is_ours, id.to_string()), at);
                }
                Some(MessageKind::Request { id, method }) => {
                    if let Some(response) = next.remove(&(is_ours, id.to_string())) {
                        responses.insert(at, response);
                    }
                    if !is_ours {
                        agent_requests
                            .entry(method.clone())
                            .or_default()
                            .push_front(at);
                    }
                }
                _ => {}
            }
        }
        let mut replay = ClientReplay {
            transcript,
            entries,
            responses,
            agent_requests,
            cursor: 0,
            open: HashMap::new(),
            request: HashSet::new(),
            pending: Vec::new(),
            received: 0,
            renames: Renames::default(),
            notes: Vec::new(),
        };
        replay.advance(0);
        replay
    }

    /// Maps a directory of the recording to another one.
    pub fn map_directory(&mut self, old: &str, new: &str) {
        self.renames.add_directory(old, new);
    }

    /// Working directories of the recorded sessions.
    pub fn directories(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for entry in self.entries.iter().filter(|e| e.is_to_agent()) {
            let json = self.json(entry);
            let cwd = json.as_ref().and_then(|j| j.pointer("/params/cwd"));
            if let Some(cwd) = cwd.and_then(Value::as_str)
                && cwd.starts_with('/')
                && !found.iter().any(|known| known == cwd)
            {
                found.push(cwd.to_owned());
            }
        }
        found
    }

    fn json(&self, entry: &ScriptEntry) -> Option<Value> {
        let line = self.transcript.line(entry.number)?;
        serde_json::from_slice(&line.bytes).ok()
    }

    fn advance(&mut self, from: usize) {
        let is_step = |entry: &ScriptEntry| {
            entry.is_to_agent() && !matches!(entry.kind, Some(MessageKind::Response { .. }))
        };
        let rest = self.entries.iter().skip(from);
        let step = rest.clone().position(is_step);
        self.cursor = step.map_or(self.entries.len(), |offset| from + offset);
    }

    /// Returns the next action.
    pub fn next_action(&mut self) -> ClientAction {
        if let Some(bytes) = self.next_response() {
            return ClientAction::Send(bytes);
        }
        if let Some(method) = self.awaited_response() {
            return ClientAction::Wait(format!("the response to {method}"));
        }
        let Some(entry) = self.entries.get(self.cursor) else {
            return ClientAction::Done;
        };
        if !matches!(entry.kind, Some(MessageKind::Request { .. }))
            && let Some(what) = self.awaited_message()
        {
            return ClientAction::Wait(what);
        }
        let bytes = self.line(entry);
        if let Some(MessageKind::Request { id, .. }) = &entry.kind {
            self.open.insert(id.to_string(), self.cursor);
        }
        self.received = 0;
        self.advance(self.cursor + 1);
        ClientAction::Send(bytes)
    }

    /// Method of an open request whose response the recorded client received before its next line.
    fn awaited_response(&self) -> Option<&str> {
        let mut open = self.open.values();
        let is_answered = |at: &&usize| self.responses.get(at).is_some_and(|a| *a < self.cursor);
        let request = open.find(is_answered)?;
        self.entries.get(*request).and_then(ScriptEntry::method)
    }

    /// The message that the recorded client received before its next notification and that has not
    /// arrived yet. `None` if no request is open, because then nothing more can arrive.
    fn awaited_message(&self) -> Option<String> {
        if self.open.is_empty() {
            return None;
        }
        let before = self.entries.get(..self.cursor).unwrap_or_default();
        let last = before.iter().rposition(|e| {
            e.is_to_agent() && !matches!(e.kind, Some(MessageKind::Response { .. }))
        });
        let from = last.map_or(0, |at| at + 1);
        let between = before.iter().enumerate().skip(from);
        let mut sent_by_agent = between.filter(|(_, e)| e.direction == Direction::FromAgent);
        if self.received == 0 && sent_by_agent.clone().next().is_some() {
            return Some("a message from the agent".to_owned());
        }
        sent_by_agent.find_map(|(at, entry)| match &entry.kind {
            Some(MessageKind::Request { method, .. }) if !self.request.contains(&at) => {
                Some(format!("the agent's request {method}"))
            }
            _ => None,
        })
    }

    /// A line of the recorded client with the names of the current run.
    fn line(&self, entry: &ScriptEntry) -> Vec<u8> {
        let line = self.transcript.line(entry.number);
        let (mut bytes, ended) = line.map_or((Vec::new(), true), |line| (line.bytes, line.ended));
        if entry.kind.is_some()
            && !self.renames.is_empty()
            && let Ok(mut value) = serde_json::from_slice::<Value>(&bytes)
            && self.renames.apply(&mut value)
        {
            bytes = value.to_string().into_bytes();
        }
        bytes.extend(ended.then_some(b'\n'));
        bytes
    }

    fn next_response(&mut self) -> Option<Vec<u8>> {
        // Messages that the recorded client sent between a request and its response must again be
        // sent before the response.
        let is_free =
            |pending: &PendingResponse| !(pending.request..pending.response).contains(&self.cursor);
        let at = self.pending.iter().position(is_free)?;
        let pending = self.pending.remove(at);
        let entry = self.entries.get(pending.response)?;
        Some(with_id(&self.line(entry), &pending.id))
    }

    /// Processes a line from the agent. Returns a response that must be sent at once.
    pub fn on_line(&mut self, line: &[u8]) -> Option<Value> {
        let json: Value = serde_json::from_slice(line).ok()?;
        self.received += 1;
        match Envelope::of(&json).kind {
            MessageKind::Response { id, .. } => {
                let request = self.open.remove(&id.to_string());
                let response = request.and_then(|request| self.responses.get(&request));
                let response = response.and_then(|response| self.entries.get(*response));
                if let Some(old) = response.and_then(|entry| self.json(entry)) {
                    self.renames.learn(&old, &json);
                }
                None
            }
            MessageKind::Request { id, method } => self.on_request(id, &method, &json),
            _ => None,
        }
    }

    fn on_request(&mut self, id: Value, method: &str, json: &Value) -> Option<Value> {
        let agent_requests = self.agent_requests.get_mut(method);
        let Some(at) = agent_requests.and_then(VecDeque::pop_front) else {
            self.notes.push(format!(
                "the agent sent the request {method}, which is not in the recording at this point"
            ));
            return Some(json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": {"code": -32601, "message": "not in the recording"},
            }));
        };
        self.request.insert(at);
        if let Some(old) = self.entries.get(at).and_then(|entry| self.json(entry)) {
            self.renames.learn(&old, json);
        }
        // A request without a recorded response gets none.
        if let Some(response) = self.responses.get(&at) {
            self.pending.push(PendingResponse {
                request: at,
                response: *response,
                id,
            });
        }
        None
    }

    /// Stops waiting and continues without the missing message.
    pub fn skip_wait(&mut self, what: &str) {
        self.notes.push(format!("{what} did not arrive"));
        self.open.clear();
        self.received = self.received.max(1);
    }

    /// Number of notifications that the recorded agent sent after the last other message.
    pub fn trailing(&self) -> usize {
        let rest = self.entries.iter().rev();
        let sent_by_agent =
            rest.filter(|e| matches!(e.direction, Direction::FromAgent | Direction::ToAgent));
        sent_by_agent
            .take_while(|e| {
                e.direction == Direction::FromAgent
                    && matches!(e.kind, Some(MessageKind::Notification { .. }))
            })
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn recording(lines: &[&str]) -> Transcript {
        let mut transcript = Transcript::new();
        for line in lines {
            let (direction, text) = match line.strip_prefix('>') {
                Some(text) => (Direction::ToAgent, text),
                None => (Direction::FromAgent, line.trim_start_matches('<')),
            };
            transcript.push(direction, Duration::ZERO, text.as_bytes(), true, None);
        }
        transcript
    }

    fn sent(next_action: ClientAction) -> Value {
        match next_action {
            ClientAction::Send(bytes) => serde_json::from_slice(&bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_are_sent_in_recorded_order_with_current_names() {
        let recording = recording(&[
            r#">{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/old"}}"#,
            r#"<{"jsonrpc":"2.0","id":1,"result":{"sessionId":"then"}}"#,
            r#">{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"then"}}"#,
            r#"<{"jsonrpc":"2.0","id":5,"method":"ask","params":{"options":[{"optionId":"a"}]}}"#,
            r#">{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"then"}}"#,
            r#">{"jsonrpc":"2.0","id":5,"result":{"outcome":{"optionId":"a"}}}"#,
            r#"<{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}"#,
        ]);
        let mut replay = ClientReplay::new(&recording, recording.numbers());
        replay.map_directory("/old", "/new");
        assert_eq!(replay.directories(), ["/old"]);
        assert_eq!(sent(replay.next_action())["params"]["cwd"], "/new");
        assert!(
            matches!(replay.next_action(), ClientAction::Wait(what) if what.contains("session/new"))
        );
        replay.on_line(br#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"now"}}"#);
        assert_eq!(sent(replay.next_action())["params"]["sessionId"], "now");
        assert!(matches!(replay.next_action(), ClientAction::Wait(_)));
        replay.on_line(br#"{"jsonrpc":"2.0","method":"session/update"}"#);
        assert!(
            matches!(replay.next_action(), ClientAction::Wait(what) if what.contains("request ask"))
        );
        replay.on_line(
            br#"{"jsonrpc":"2.0","id":"q","method":"ask","params":{"options":[{"optionId":"b"}]}}"#,
        );
        // The recorded client canceled before it sent the response.
        assert_eq!(sent(replay.next_action())["method"], "session/cancel");
        let response = sent(replay.next_action());
        assert_eq!(response["id"], "q");
        assert_eq!(response["result"]["outcome"]["optionId"], "b");
        assert!(matches!(replay.next_action(), ClientAction::Wait(_)));
        replay.on_line(br#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}"#);
        assert_eq!(replay.next_action(), ClientAction::Done);
        assert!(replay.notes.is_empty());
    }

    #[test]
    fn missing_responses_are_skipped_and_unknown_requests_rejected() {
        let recording = recording(&[
            r#">{"jsonrpc":"2.0","id":1,"method":"a"}"#,
            r#"<{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#">{"jsonrpc":"2.0","id":2,"method":"b"}"#,
        ]);
        let mut replay = ClientReplay::new(&recording, recording.numbers());
        sent(replay.next_action());
        let rejected = replay.on_line(br#"{"jsonrpc":"2.0","id":3,"method":"what"}"#);
        assert_eq!(rejected.unwrap()["error"]["code"], -32601);
        let ClientAction::Wait(what) = replay.next_action() else {
            panic!("does not wait")
        };
        replay.skip_wait(&what);
        assert_eq!(sent(replay.next_action())["method"], "b");
        // The request has no response in the recording.
        assert_eq!(replay.next_action(), ClientAction::Done);
        assert_eq!(replay.notes.len(), 2);
    }
}
