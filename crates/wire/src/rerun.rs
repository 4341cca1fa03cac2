//! Replays the recorded client to a live agent. Each message is sent once the messages have
//! arrived that came before it in the recording. The agent's requests get the recorded responses.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::envelope::{Envelope, Kind};
use crate::renames::Renames;
use crate::script::{Entry, with_id};
use crate::transcript::{Direction, Transcript};

/// The next action of the replayed client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Wait for a message. The text says which, for people.
    Wait(String),
    /// Everything is sent, and all requests with a recorded response have a response.
    Done,
}

/// A request of the live agent, matched to a recorded one.
struct Due {
    asked: usize,
    answer: usize,
    id: Value,
}

/// Replays a client.
pub struct Rerun<'t> {
    transcript: &'t Transcript,
    entries: Vec<Entry>,
    /// Index of the response to each request of either side.
    answers: HashMap<usize, usize>,
    /// Recorded requests of the agent that the live agent has not sent yet, by method.
    questions: HashMap<String, VecDeque<usize>>,
    /// Index of the next line of the client that is not a response.
    cursor: usize,
    /// Indexes of the client's requests without a response, by id.
    open: HashMap<String, usize>,
    asked: HashSet<usize>,
    due: Vec<Due>,
    /// Number of messages from the agent since the last line that was sent.
    heard: usize,
    renames: Renames,
    /// Deviations from the recording, for people.
    pub notes: Vec<String>,
}

impl<'t> Rerun<'t> {
    /// Replays the given lines of a transcript.
    pub fn new(transcript: &'t Transcript, lines: RangeInclusive<u64>) -> Rerun<'t> {
        let lines = lines.filter_map(|number| transcript.line(number));
        let entries: Vec<Entry> = lines.map(|line| Entry::of(&line)).collect();
        let mut questions: HashMap<String, VecDeque<usize>> = HashMap::new();
        let mut answers = HashMap::new();
        // Go backward: the next response with the id of a request belongs to it.
        let mut next: HashMap<(bool, String), usize> = HashMap::new();
        for (at, entry) in entries.iter().enumerate().rev() {
            let is_ours = entry.is_to_agent();
            match &entry.kind {
                Some(Kind::Response { id, .. }) => {
                    next.insert((!is_ours, id.to_string()), at);
                }
                Some(Kind::Request { id, method }) => {
                    if let Some(answer) = next.remove(&(is_ours, id.to_string())) {
                        answers.insert(at, answer);
                    }
                    if !is_ours {
                        questions.entry(method.clone()).or_default().push_front(at);
                    }
                }
                _ => {}
            }
        }
        let mut rerun = Rerun {
            transcript,
            entries,
            answers,
            questions,
            cursor: 0,
            open: HashMap::new(),
            asked: HashSet::new(),
            due: Vec::new(),
            heard: 0,
            renames: Renames::default(),
            notes: Vec::new(),
        };
        rerun.step_on(0);
        rerun
    }

    /// Maps a directory of the recording to another one.
    pub fn place(&mut self, old: &str, new: &str) {
        self.renames.place(old, new);
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

    fn json(&self, entry: &Entry) -> Option<Value> {
        let line = self.transcript.line(entry.number)?;
        serde_json::from_slice(&line.bytes).ok()
    }

    fn step_on(&mut self, from: usize) {
        let is_step = |entry: &Entry| {
            entry.is_to_agent() && !matches!(entry.kind, Some(Kind::Response { .. }))
        };
        let rest = self.entries.iter().skip(from);
        let step = rest.clone().position(is_step);
        self.cursor = step.map_or(self.entries.len(), |offset| from + offset);
    }

    /// Returns the next action.
    pub fn todo(&mut self) -> Todo {
        if let Some(bytes) = self.due_answer() {
            return Todo::Send(bytes);
        }
        if let Some(method) = self.owed() {
            return Todo::Wait(format!("the response to {method}"));
        }
        let Some(entry) = self.entries.get(self.cursor) else {
            return Todo::Done;
        };
        if !matches!(entry.kind, Some(Kind::Request { .. }))
            && let Some(what) = self.not_yet_heard()
        {
            return Todo::Wait(what);
        }
        let bytes = self.line(entry);
        if let Some(Kind::Request { id, .. }) = &entry.kind {
            self.open.insert(id.to_string(), self.cursor);
        }
        self.heard = 0;
        self.step_on(self.cursor + 1);
        Todo::Send(bytes)
    }

    /// Method of an open request whose response the recorded client received before its next line.
    fn owed(&self) -> Option<&str> {
        let mut open = self.open.values();
        let is_answered = |at: &&usize| self.answers.get(at).is_some_and(|a| *a < self.cursor);
        let asked = open.find(is_answered)?;
        self.entries.get(*asked).and_then(Entry::method)
    }

    /// The message that the recorded client received before its next notification and that has not
    /// arrived yet. `None` if no request is open, because then nothing more can arrive.
    fn not_yet_heard(&self) -> Option<String> {
        if self.open.is_empty() {
            return None;
        }
        let before = self.entries.get(..self.cursor).unwrap_or_default();
        let last = before
            .iter()
            .rposition(|e| e.is_to_agent() && !matches!(e.kind, Some(Kind::Response { .. })));
        let from = last.map_or(0, |at| at + 1);
        let between = before.iter().enumerate().skip(from);
        let mut said = between.filter(|(_, e)| e.direction == Direction::FromAgent);
        if self.heard == 0 && said.clone().next().is_some() {
            return Some("a message from the agent".to_owned());
        }
        said.find_map(|(at, entry)| match &entry.kind {
            Some(Kind::Request { method, .. }) if !self.asked.contains(&at) => {
                Some(format!("the agent's request {method}"))
            }
            _ => None,
        })
    }

    /// A line of the recorded client with the names of the current run.
    fn line(&self, entry: &Entry) -> Vec<u8> {
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

    fn due_answer(&mut self) -> Option<Vec<u8>> {
        // Messages that the recorded client sent between a request and its response must again be
        // sent before the response.
        let is_free = |due: &Due| !(due.asked..due.answer).contains(&self.cursor);
        let at = self.due.iter().position(is_free)?;
        let due = self.due.remove(at);
        let entry = self.entries.get(due.answer)?;
        Some(with_id(&self.line(entry), &due.id))
    }

    /// Processes a line from the agent. Returns a response that must be sent at once.
    pub fn hear(&mut self, line: &[u8]) -> Option<Value> {
        let json: Value = serde_json::from_slice(line).ok()?;
        self.heard += 1;
        match Envelope::of(&json).kind {
            Kind::Response { id, .. } => {
                let asked = self.open.remove(&id.to_string());
                let answer = asked.and_then(|asked| self.answers.get(&asked));
                let answer = answer.and_then(|answer| self.entries.get(*answer));
                if let Some(old) = answer.and_then(|entry| self.json(entry)) {
                    self.renames.learn(&old, &json);
                }
                None
            }
            Kind::Request { id, method } => self.hear_request(id, &method, &json),
            _ => None,
        }
    }

    fn hear_request(&mut self, id: Value, method: &str, json: &Value) -> Option<Value> {
        let questions = self.questions.get_mut(method);
        let Some(at) = questions.and_then(VecDeque::pop_front) else {
            self.notes.push(format!(
                "the agent sent the request {method}, which is not in the recording at this point"
            ));
            return Some(json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": {"code": -32601, "message": "not in the recording"},
            }));
        };
        self.asked.insert(at);
        if let Some(old) = self.entries.get(at).and_then(|entry| self.json(entry)) {
            self.renames.learn(&old, json);
        }
        // A request without a recorded response gets none.
        if let Some(answer) = self.answers.get(&at) {
            self.due.push(Due {
                asked: at,
                answer: *answer,
                id,
            });
        }
        None
    }

    /// Stops waiting and continues without the missing message.
    pub fn pass_over(&mut self, what: &str) {
        self.notes.push(format!("{what} did not arrive"));
        self.open.clear();
        self.heard = self.heard.max(1);
    }

    /// Number of notifications that the recorded agent sent after the last other message.
    pub fn trailing(&self) -> usize {
        let rest = self.entries.iter().rev();
        let said =
            rest.filter(|e| matches!(e.direction, Direction::FromAgent | Direction::ToAgent));
        said.take_while(|e| {
            e.direction == Direction::FromAgent && matches!(e.kind, Some(Kind::Notification { .. }))
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

    fn sent(todo: Todo) -> Value {
        match todo {
            Todo::Send(bytes) => serde_json::from_slice(&bytes).unwrap(),
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
        let mut rerun = Rerun::new(&recording, recording.numbers());
        rerun.place("/old", "/new");
        assert_eq!(rerun.directories(), ["/old"]);
        assert_eq!(sent(rerun.todo())["params"]["cwd"], "/new");
        assert!(matches!(rerun.todo(), Todo::Wait(what) if what.contains("session/new")));
        rerun.hear(br#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"now"}}"#);
        assert_eq!(sent(rerun.todo())["params"]["sessionId"], "now");
        assert!(matches!(rerun.todo(), Todo::Wait(_)));
        rerun.hear(br#"{"jsonrpc":"2.0","method":"session/update"}"#);
        assert!(matches!(rerun.todo(), Todo::Wait(what) if what.contains("request ask")));
        rerun.hear(
            br#"{"jsonrpc":"2.0","id":"q","method":"ask","params":{"options":[{"optionId":"b"}]}}"#,
        );
        // The recorded client canceled before it sent the response.
        assert_eq!(sent(rerun.todo())["method"], "session/cancel");
        let answer = sent(rerun.todo());
        assert_eq!(answer["id"], "q");
        assert_eq!(answer["result"]["outcome"]["optionId"], "b");
        assert!(matches!(rerun.todo(), Todo::Wait(_)));
        rerun.hear(br#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}"#);
        assert_eq!(rerun.todo(), Todo::Done);
        assert!(rerun.notes.is_empty());
    }

    #[test]
    fn missing_responses_are_skipped_and_unknown_requests_rejected() {
        let recording = recording(&[
            r#">{"jsonrpc":"2.0","id":1,"method":"a"}"#,
            r#"<{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#">{"jsonrpc":"2.0","id":2,"method":"b"}"#,
        ]);
        let mut rerun = Rerun::new(&recording, recording.numbers());
        sent(rerun.todo());
        let refused = rerun.hear(br#"{"jsonrpc":"2.0","id":3,"method":"what"}"#);
        assert_eq!(refused.unwrap()["error"]["code"], -32601);
        let Todo::Wait(what) = rerun.todo() else {
            panic!("does not wait")
        };
        rerun.pass_over(&what);
        assert_eq!(sent(rerun.todo())["method"], "b");
        // The request has no response in the recording.
        assert_eq!(rerun.todo(), Todo::Done);
        assert_eq!(rerun.notes.len(), 2);
    }
}
