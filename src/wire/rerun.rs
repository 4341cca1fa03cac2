//! Plays the recorded client to a live agent: what the client sent is sent again when what it
//! had heard before has come, and the agent's questions get the recorded answers.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::envelope::{Envelope, Kind};
use super::renames::Renames;
use super::script::{Entry, with_id};
use super::transcript::{Direction, Transcript};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Write this.
    Send(Vec<u8>),
    /// Something has to come first; for people, what.
    Wait(String),
    /// All is sent, and everything that was answered in the recording is answered.
    Done,
}

/// A question of the live agent, with the recorded one that it is taken for.
struct Due {
    asked: usize,
    answer: usize,
    id: Value,
}

pub struct Rerun<'t> {
    transcript: &'t Transcript,
    entries: Vec<Entry>,
    /// The next line of the client that is no answer.
    cursor: usize,
    /// Ids of the client's requests that are open now.
    open: HashSet<String>,
    /// And of those that were answered, or are waited for no longer.
    answered: HashSet<String>,
    /// Recorded questions of the agent that were asked again.
    asked: HashSet<usize>,
    due: Vec<Due>,
    /// Messages since the last line that was sent.
    heard: usize,
    renames: Renames,
    pub notes: Vec<String>,
}

impl<'t> Rerun<'t> {
    pub fn new(transcript: &'t Transcript, lines: RangeInclusive<u64>) -> Rerun<'t> {
        let lines = lines.filter_map(|number| transcript.line(number));
        let mut rerun = Rerun {
            transcript,
            entries: lines.map(|line| Entry::of(&line)).collect(),
            cursor: 0,
            open: HashSet::new(),
            answered: HashSet::new(),
            asked: HashSet::new(),
            due: Vec::new(),
            heard: 0,
            renames: Renames::default(),
            notes: Vec::new(),
        };
        rerun.to_next_step(0);
        rerun
    }

    /// A directory of the recording that is another one now.
    pub fn place(&mut self, old: &str, new: &str) {
        self.renames.place(old, new);
    }

    /// Directories in which the recorded sessions were.
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

    fn to_next_step(&mut self, from: usize) {
        let is_step = |entry: &Entry| {
            entry.is_to_agent() && !matches!(entry.kind, Some(Kind::Response { .. }))
        };
        let rest = self.entries.iter().skip(from);
        let step = rest.clone().position(is_step);
        self.cursor = step.map_or(self.entries.len(), |offset| from + offset);
    }

    pub fn todo(&mut self) -> Todo {
        if let Some(bytes) = self.due_answer() {
            return Todo::Send(bytes);
        }
        if let Some(method) = self.owed() {
            return Todo::Wait(format!("the answer to {method}"));
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
            let key = id.to_string();
            self.answered.remove(&key);
            self.open.insert(key);
        }
        self.heard = 0;
        self.to_next_step(self.cursor + 1);
        Todo::Send(bytes)
    }

    /// A request whose answer the recorded client had before its next line.
    fn owed(&self) -> Option<&str> {
        let before = self.entries.iter().take(self.cursor);
        let answers = before.filter(|e| e.direction == Direction::FromAgent);
        let mut ids = answers.filter_map(|entry| match &entry.kind {
            Some(Kind::Response { id, .. }) => Some(id),
            _ => None,
        });
        let id = ids.find(|id| self.open.contains(&id.to_string()))?;
        let mut before = self.entries.iter().take(self.cursor);
        let asked = before.find(|e| {
            e.is_to_agent() && matches!(&e.kind, Some(Kind::Request { id: i, .. }) if i == id)
        });
        asked.and_then(Entry::method)
    }

    /// What the client had heard before a notification, as long as more can come.
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
            return Some("anything that the agent says".to_owned());
        }
        said.find_map(|(at, entry)| match &entry.kind {
            Some(Kind::Request { method, .. }) if !self.asked.contains(&at) => {
                Some(format!("the agent's request {method}"))
            }
            _ => None,
        })
    }

    /// A line of the recorded client with the names of now.
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
        // What the client did between question and answer comes before the answer now, too.
        let is_free = |due: &Due| !(due.asked..due.answer).contains(&self.cursor);
        let at = self.due.iter().position(is_free)?;
        let due = self.due.remove(at);
        let entry = self.entries.get(due.answer)?;
        Some(with_id(&self.line(entry), &due.id))
    }

    /// Takes a line of the agent; gives what must be answered at once.
    pub fn hear(&mut self, line: &[u8]) -> Option<Value> {
        let json: Value = serde_json::from_slice(line).ok()?;
        self.heard += 1;
        match Envelope::of(&json).kind {
            Kind::Response { id, .. } => {
                let key = id.to_string();
                self.open.remove(&key);
                self.answered.insert(key);
                let recorded = self.entries.iter().take(self.cursor).rev().find(|e| {
                    e.direction == Direction::FromAgent
                        && matches!(&e.kind, Some(Kind::Response { id: i, .. }) if *i == id)
                });
                let recorded = recorded.or_else(|| {
                    self.entries.iter().find(|e| {
                        e.direction == Direction::FromAgent
                            && matches!(&e.kind, Some(Kind::Response { id: i, .. }) if *i == id)
                    })
                });
                if let Some(old) = recorded.and_then(|e| self.json(e)) {
                    self.renames.learn(&old, &json);
                }
                None
            }
            Kind::Request { id, method } => self.hear_request(id, &method, &json),
            _ => None,
        }
    }

    fn hear_request(&mut self, id: Value, method: &str, json: &Value) -> Option<Value> {
        let asked = self.entries.iter().enumerate().find(|(at, e)| {
            e.direction == Direction::FromAgent
                && matches!(&e.kind, Some(Kind::Request { method: m, .. }) if m == method)
                && !self.asked.contains(at)
        });
        let found = asked.and_then(|(at, entry)| {
            let Some(Kind::Request { id: old, .. }) = &entry.kind else {
                return None;
            };
            let mut rest = self.entries.iter().enumerate().skip(at);
            let answer = rest.find(|(_, e)| {
                e.is_to_agent() && matches!(&e.kind, Some(Kind::Response { id: i, .. }) if i == old)
            });
            Some((at, answer.map(|(index, _)| index), self.json(entry)))
        });
        let Some((at, answer, old)) = found else {
            self.notes.push(format!(
                "the agent asked for {method}, which the recording does not have here"
            ));
            return Some(json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": {"code": -32601, "message": "not in the recording"},
            }));
        };
        self.asked.insert(at);
        if let Some(old) = old {
            self.renames.learn(&old, json);
        }
        // Without an answer in the recording it stays without one.
        if let Some(answer) = answer {
            let asked = at;
            self.due.push(Due { asked, answer, id });
        }
        None
    }

    /// Nothing comes any more: goes on without it.
    pub fn pass_over(&mut self, what: &str) {
        self.notes.push(format!("{what} did not come"));
        self.answered.extend(self.open.drain());
        self.heard = self.heard.max(1);
    }

    /// Messages that the recorded agent sent after the last answer.
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
    fn lines_go_out_when_their_time_has_come_with_the_names_of_now() {
        let recording = recording(&[
            r#">{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/old"}}"#,
            r#"<{"jsonrpc":"2.0","id":1,"result":{"sessionId":"then"}}"#,
            r#">{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"then"}}"#,
            r#"<{"jsonrpc":"2.0","id":5,"method":"ask","params":{"options":[{"optionId":"a"}]}}"#,
            r#">{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"then"}}"#,
            r#">{"jsonrpc":"2.0","id":5,"result":{"outcome":{"optionId":"a"}}}"#,
            r#"<{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}"#,
        ]);
        let mut rerun = Rerun::new(&recording, 1..=7);
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
        // The recorded client cancelled before it answered.
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
    fn silence_is_passed_over_and_strange_questions_are_refused() {
        let recording = recording(&[
            r#">{"jsonrpc":"2.0","id":1,"method":"a"}"#,
            r#"<{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#">{"jsonrpc":"2.0","id":2,"method":"b"}"#,
        ]);
        let mut rerun = Rerun::new(&recording, 1..=3);
        sent(rerun.todo());
        let refused = rerun.hear(br#"{"jsonrpc":"2.0","id":3,"method":"what"}"#);
        assert_eq!(refused.unwrap()["error"]["code"], -32601);
        let Todo::Wait(what) = rerun.todo() else {
            panic!("does not wait")
        };
        rerun.pass_over(&what);
        assert_eq!(sent(rerun.todo())["method"], "b");
        // It had no answer in the recording.
        assert_eq!(rerun.todo(), Todo::Done);
        assert_eq!(rerun.notes.len(), 2);
    }
}
