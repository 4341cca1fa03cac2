//! Two transcripts side by side: what differs between them when everything is left out that is
//! made up anew in every run.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};
use similar::{ChangeTag, DiffOp, TextDiff};

use crate::envelope::{Envelope, Kind};
use crate::script::process_said;
use crate::transcript::{Direction, Line, Transcript};

/// Members that name something which one side made up.
const MADE_UP: [&str; 8] = [
    "sessionId",
    "toolCallId",
    "terminalId",
    "messageId",
    "elicitationId",
    "requestId",
    "progressToken",
    "nextCursor",
];

/// A line as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    /// Its number in its transcript.
    pub line: u64,
    pub direction: Direction,
    /// What it is, in a few words.
    pub head: String,
    /// What it says.
    pub body: Value,
}

impl Normal {
    fn key(&self) -> String {
        format!("{}\n{}", self.head, self.body)
    }
}

#[derive(Clone, Debug)]
pub enum Difference {
    /// Only in the first.
    Removed(Normal),
    /// Only in the second.
    Added(Normal),
    Changed(Normal, Normal),
}

/// What differs, in order. Each direction is compared by itself: which of two sides that speak
/// at the same time comes first is chance.
pub fn diff(a: &[Normal], b: &[Normal]) -> Vec<Difference> {
    let mut found = Vec::new();
    let directions = [
        Direction::ToAgent,
        Direction::FromAgent,
        Direction::Stderr,
        Direction::Process,
    ];
    for direction in directions {
        let of = |lines: &[Normal]| -> Vec<Normal> {
            let lines = lines.iter().filter(|line| line.direction == direction);
            lines.cloned().collect()
        };
        diff_one(&of(a), &of(b), &mut found);
    }
    found.sort_by_key(Difference::line);
    found
}

fn diff_one(a: &[Normal], b: &[Normal], found: &mut Vec<Difference>) {
    let keys = |lines: &[Normal]| -> Vec<String> { lines.iter().map(Normal::key).collect() };
    let (ours, theirs) = (keys(a), keys(b));
    for op in similar::capture_diff_slices(similar::Algorithm::Myers, &ours, &theirs) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let old = a.get(op.old_range()).unwrap_or_default();
        let new = b.get(op.new_range()).unwrap_or_default();
        pair(old, new, found);
    }
}

/// Lines of the same kind are one line that changed.
fn pair(old: &[Normal], new: &[Normal], found: &mut Vec<Difference>) {
    let mut rest = new.iter();
    for line in old {
        let at = rest.clone().position(|other| other.head == line.head);
        match at {
            Some(at) => {
                found.extend(rest.by_ref().take(at).cloned().map(Difference::Added));
                if let Some(other) = rest.next() {
                    found.push(Difference::Changed(line.clone(), other.clone()));
                }
            }
            None => found.push(Difference::Removed(line.clone())),
        }
    }
    found.extend(rest.cloned().map(Difference::Added));
}

impl Difference {
    fn line(&self) -> u64 {
        match self {
            Difference::Removed(one) | Difference::Added(one) | Difference::Changed(one, _) => {
                one.line
            }
        }
    }

    pub fn as_json(&self) -> Value {
        let side = |n: &Normal| json!({"line": n.line, "what": n.head, "says": n.body});
        match self {
            Difference::Removed(a) => json!({"change": "removed", "a": side(a)}),
            Difference::Added(b) => json!({"change": "added", "b": side(b)}),
            Difference::Changed(a, b) => {
                json!({"change": "changed", "a": side(a), "b": side(b)})
            }
        }
    }

    /// For people: a heading, then lines that start with a blank, `-` or `+`.
    pub fn lines(&self) -> (String, Vec<(char, String)>) {
        let whole = |mark: char, n: &Normal| -> Vec<(char, String)> {
            let text = format!("{:#}", n.body);
            text.lines().map(|line| (mark, line.to_owned())).collect()
        };
        match self {
            Difference::Removed(a) => (
                format!("only in a, line {}: {}", a.line, a.head),
                whole('-', a),
            ),
            Difference::Added(b) => (
                format!("only in b, line {}: {}", b.line, b.head),
                whole('+', b),
            ),
            Difference::Changed(a, b) => {
                let head = format!("a line {}, b line {}: {}", a.line, b.line, a.head);
                let (old, new) = (format!("{:#}", a.body), format!("{:#}", b.body));
                let diff = TextDiff::from_lines(&old, &new);
                let mut lines = Vec::new();
                for group in diff.grouped_ops(2) {
                    for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                        let mark = match change.tag() {
                            ChangeTag::Delete => '-',
                            ChangeTag::Insert => '+',
                            ChangeTag::Equal => ' ',
                        };
                        lines.push((mark, change.value().trim_end_matches('\n').to_owned()));
                    }
                }
                (head, lines)
            }
        }
    }
}

/// The lines of a transcript as they are compared.
pub fn normal(transcript: &Transcript, lines: RangeInclusive<u64>) -> Vec<Normal> {
    let mut names = Names::default();
    let lines = lines.filter_map(|number| transcript.line(number));
    // Who ends a conversation closes the input; not every recording writes it down.
    let is_said =
        |line: &Line| line.direction != Direction::Process || process_said(line, "input").is_none();
    let lines = lines.filter(is_said);
    lines.map(|line| names.line(&line)).collect()
}

/// What was made up so far, and what stands for it.
#[derive(Default)]
struct Names {
    known: HashMap<String, String>,
    counts: HashMap<String, usize>,
    directories: Vec<(String, String)>,
    /// Requests by direction and id: how they are called, and their method.
    asked: HashMap<(bool, String), (String, String)>,
}

impl Names {
    fn line(&mut self, line: &Line) -> Normal {
        let (head, body) = match line.direction {
            Direction::Stderr => ("standard error".to_owned(), json!(self.text(&line.text()))),
            Direction::Process => process(&line.text()),
            _ => match serde_json::from_slice::<Value>(&line.bytes) {
                Ok(message) => self.message(line, message),
                Err(_) => {
                    let text = self.text(&line.text());
                    (format!("{} no message", arrow(line)), json!(text))
                }
            },
        };
        Normal {
            line: line.number,
            direction: line.direction,
            head,
            body,
        }
    }

    fn message(&mut self, line: &Line, mut message: Value) -> (String, Value) {
        let is_ours = line.direction == Direction::ToAgent;
        let what = match Envelope::of(&message).kind {
            Kind::Request { id, method } => {
                let number = self.count(match is_ours {
                    true => "request",
                    false => "question",
                });
                let name = format!("#{number}");
                let asked = (name.clone(), method.clone());
                self.asked.insert((is_ours, id.to_string()), asked);
                set(&mut message, "id", json!(name));
                method
            }
            Kind::Notification { method } => {
                let kind = message.pointer("/params/update/sessionUpdate");
                match kind.and_then(Value::as_str) {
                    Some(kind) => format!("{method} {kind}"),
                    None => method,
                }
            }
            Kind::Response { id, .. } => {
                match self.asked.get(&(!is_ours, id.to_string())).cloned() {
                    Some((name, method)) => {
                        set(&mut message, "id", json!(name));
                        format!("answer to {method}")
                    }
                    None => format!("answer to nothing ({id})"),
                }
            }
            Kind::Other => "no message".to_owned(),
        };
        self.learn(&message);
        let body = self.rewrite(&message);
        (format!("{} {what}", arrow(line)), body)
    }

    fn count(&mut self, of: &str) -> usize {
        let count = self.counts.entry(of.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                for (key, value) in members {
                    match value.as_str() {
                        Some(text) if MADE_UP.contains(&key.as_str()) => {
                            if !self.known.contains_key(text) {
                                let number = self.count(key);
                                let name = format!("<{key} {number}>");
                                self.known.insert(text.to_owned(), name);
                            }
                        }
                        Some(text) if key == "cwd" && text.len() > 1 && text.starts_with('/') => {
                            if !self.directories.iter().any(|(known, _)| known == text) {
                                let number = self.count(key);
                                let name = format!("<cwd {number}>");
                                self.directories.push((text.to_owned(), name));
                                // The longest first: one may lie in another.
                                self.directories
                                    .sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
                            }
                        }
                        _ => self.learn(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            _ => {}
        }
    }

    /// With the members in order, and names for what was made up.
    fn rewrite(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => json!(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.rewrite(item)).collect(),
            Value::Object(members) => {
                let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
                sorted.sort_by_key(|(key, _)| *key);
                let rewritten = sorted.into_iter().map(|(key, value)| {
                    let key = self.text(key);
                    (key, self.rewrite(value))
                });
                Value::Object(rewritten.collect::<Map<String, Value>>())
            }
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        if let Some(name) = self.known.get(text) {
            return name.clone();
        }
        if is_time(text) {
            return "<time>".to_owned();
        }
        let mut text = text.to_owned();
        for (path, name) in &self.directories {
            if text.contains(path.as_str()) {
                text = text.replace(path.as_str(), name);
            }
        }
        text
    }
}

fn arrow(line: &Line) -> &'static str {
    match line.direction {
        Direction::ToAgent => "→",
        _ => "←",
    }
}

fn set(message: &mut Value, key: &str, value: Value) {
    if let Some(place) = message.get_mut(key) {
        *place = value;
    }
}

/// How it ended counts, not how long it took.
fn process(text: &str) -> (String, Value) {
    let said: Value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    match said.get("exit") {
        Some(exit) => {
            let part = |key: &str| exit.get(key).cloned().unwrap_or(Value::Null);
            let exit = json!({"code": part("code"), "signal": part("signal")});
            ("the process ended".to_owned(), exit)
        }
        None => ("the process".to_owned(), said),
    }
}

/// A date with a time, as RFC 3339 has it.
fn is_time(text: &str) -> bool {
    let fits = |(at, c): (usize, char)| match at {
        4 | 7 => c == '-',
        10 => matches!(c, 'T' | 't' | ' '),
        13 | 16 => c == ':',
        0..=18 => c.is_ascii_digit(),
        _ => c.is_ascii_digit() || matches!(c, '.' | 'Z' | 'z' | '+' | '-' | ':'),
    };
    (20..=35).contains(&text.len()) && text.chars().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn of(lines: &[&str]) -> Vec<Normal> {
        let mut transcript = Transcript::new();
        for line in lines {
            let (mark, text) = line.split_at(1);
            let direction = match mark {
                ">" => Direction::ToAgent,
                "<" => Direction::FromAgent,
                "!" => Direction::Stderr,
                _ => Direction::Process,
            };
            transcript.push(direction, Duration::ZERO, text.as_bytes(), true, None);
        }
        normal(&transcript, transcript.numbers())
    }

    #[test]
    fn what_is_made_up_anew_makes_no_difference() {
        let a = of(&[
            r#">{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/a"}}"#,
            r#"<{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1","at":"2026-01-02T03:04:05Z"}}"#,
            r#"<{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","x":"in /a/b"}}"#,
            "!at /a",
            r##"#{"exit":{"code":0,"signal":null,"ms":12}}"##,
        ]);
        let b = of(&[
            r#">{"method":"session/new","params":{"cwd":"/tmp/z"},"jsonrpc":"2.0","id":"x"}"#,
            r#"<{"jsonrpc":"2.0","id":"x","result":{"at":"2027-01-02T03:04:05.123+01:00","sessionId":"q"}}"#,
            r#"<{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"q","x":"in /tmp/z/b"}}"#,
            "!at /tmp/z",
            r##"#{"input":"closed"}"##,
            r##"#{"exit":{"code":0,"signal":null,"ms":99}}"##,
        ]);
        assert!(diff(&a, &b).is_empty(), "{:#?}", diff(&a, &b));
    }

    #[test]
    fn what_differs_is_told_with_its_lines() {
        let a = of(&[
            r#">{"jsonrpc":"2.0","id":1,"method":"a"}"#,
            r#"<{"jsonrpc":"2.0","id":1,"result":{"n":1,"m":2}}"#,
            r#"<{"jsonrpc":"2.0","method":"gone"}"#,
        ]);
        let b = of(&[
            r#">{"jsonrpc":"2.0","id":1,"method":"a"}"#,
            r#"<{"jsonrpc":"2.0","method":"new"}"#,
            r#"<{"jsonrpc":"2.0","id":1,"result":{"n":1,"m":3}}"#,
        ]);
        let found = diff(&a, &b);
        let [
            Difference::Added(new),
            Difference::Changed(old, now),
            Difference::Removed(gone),
        ] = found.as_slice()
        else {
            panic!("{found:#?}")
        };
        assert_eq!((new.line, old.line, now.line, gone.line), (3, 3, 4, 4));
        let (head, lines) = found[1].lines();
        assert_eq!(head, "a line 3, b line 4: ← answer to a");
        assert!(
            lines.contains(&('-', "    \"m\": 2,".to_owned())),
            "{lines:?}"
        );
        assert!(lines.contains(&('+', "    \"m\": 3,".to_owned())));
        // Which side was first is chance.
        let early = of(&["<x", ">y"]);
        assert!(diff(&early, &of(&[">y", "<x"])).is_empty());
        let swapped = of(&[r#"<{"jsonrpc":"2.0","id":1,"result":{}}"#]);
        assert_eq!(swapped[0].head, "← answer to nothing (1)");
    }

    #[test]
    fn times_are_told_from_other_texts() {
        assert!(is_time("2026-11-16T14:24:00Z"));
        assert!(!is_time("2026-11-16"));
        assert!(!is_time("2026-11-16T14:24:00 and more"));
        assert!(!is_time("ääää-11-16T14:24:00Z"));
    }
}
