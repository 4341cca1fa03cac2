//! A recording as a script: the kind of each line, and the lines of each process.

use std::ops::RangeInclusive;

use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use crate::envelope::{Envelope, MessageKind};
use crate::transcript::{Direction, FIRST_LINE, Line, Transcript};

/// A line of a recording.
#[derive(Clone, Debug)]
pub struct ScriptEntry {
    /// Number of the line.
    pub number: u64,
    /// Direction of the line.
    pub direction: Direction,
    /// Kind of the message, or `None` if the bytes are not a JSON-RPC message.
    pub kind: Option<MessageKind>,
}

impl ScriptEntry {
    /// Classifies a line.
    pub fn of(line: &Line) -> ScriptEntry {
        let json: Option<Value> = match line.direction {
            Direction::ToAgent | Direction::FromAgent => serde_json::from_slice(&line.bytes).ok(),
            _ => None,
        };
        let kind = json.map(|json| Envelope::of(&json).kind);
        ScriptEntry {
            number: line.number,
            direction: line.direction,
            kind: kind.filter(|kind| *kind != MessageKind::Other),
        }
    }

    /// Whether the client sent the line.
    pub fn is_to_agent(&self) -> bool {
        self.direction == Direction::ToAgent
    }

    /// Method of a request or notification.
    pub fn method(&self) -> Option<&str> {
        match &self.kind {
            Some(MessageKind::Request { method, .. } | MessageKind::Notification { method }) => {
                Some(method)
            }
            _ => None,
        }
    }

    /// Description of the line for people.
    pub fn describe(&self) -> String {
        match &self.kind {
            Some(MessageKind::Request { method, .. }) => format!("the request {method}"),
            Some(MessageKind::Notification { method }) => format!("the notification {method}"),
            Some(MessageKind::Response { id, .. }) => format!("a response to request {id}"),
            _ => "a line that is not a JSON-RPC message".to_owned(),
        }
    }
}

/// Line numbers of each process in a recording. A case can start its agent more than once.
pub fn processes(transcript: &Transcript) -> Vec<RangeInclusive<u64>> {
    let starts = transcript.lines().filter(|line| {
        line.direction == Direction::Process && process_event(line, "started").is_some()
    });
    let mut starts: Vec<u64> = starts.map(|line| line.number).collect();
    if starts.first() != Some(&FIRST_LINE) {
        starts.insert(0, FIRST_LINE);
    }
    let last = transcript.last();
    let ends = starts.iter().skip(1).map(|start| start - 1).chain([last]);
    starts.iter().zip(ends).map(|(a, b)| *a..=b).collect()
}

/// A member of an event of the process.
pub fn process_event(line: &Line, member: &str) -> Option<Value> {
    let event: Value = serde_json::from_slice(&line.bytes).ok()?;
    event.get(member).cloned()
}

/// Replaces the id of a message. All other bytes stay the same.
pub fn with_id(bytes: &[u8], id: &Value) -> Vec<u8> {
    let spliced = || {
        let text = std::str::from_utf8(bytes).ok()?;
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
        let old = members.get("id")?.get();
        let start = (old.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        let before = text.get(..start)?;
        let after = text.get(start + old.len()..)?;
        Some(format!("{before}{id}{after}").into_bytes())
    };
    spliced().unwrap_or_else(|| bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn only_the_id_changes() {
        let line = br#"{ "jsonrpc":"2.0", "result":{"id":1,"n":1.50}, "id" : 1 }"#;
        let changed = br#"{ "jsonrpc":"2.0", "result":{"id":1,"n":1.50}, "id" : "x" }"#;
        assert_eq!(with_id(line, &json!("x")), changed);
        assert_eq!(with_id(b"no message", &json!(1)), b"no message");
        assert_eq!(with_id(b"{}", &json!(1)), b"{}");
    }

    #[test]
    fn lines_are_grouped_by_process() {
        let mut transcript = Transcript::new();
        let mut push = |direction, text: &str| {
            transcript.push(direction, Duration::ZERO, text.as_bytes(), true, None);
        };
        push(Direction::Process, r#"{"started":true}"#);
        push(Direction::ToAgent, "{}");
        push(Direction::Process, r#"{"exit":{"code":0}}"#);
        push(Direction::Process, r#"{"started":true}"#);
        push(Direction::ToAgent, "{}");
        assert_eq!(processes(&transcript), [2..=4, 5..=6]);
        let whole = processes(&Transcript::new());
        assert_eq!(whole.len(), 1);
        assert!(whole.iter().all(|lines| lines.is_empty()));
    }
}
