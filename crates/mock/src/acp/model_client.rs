//! Client of a model with the Chat Completions API, for turns that ask a model.
//!
//! It reads the stream in short steps, so that a canceled turn closes the connection immediately.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::turn::{TurnEnd, TurnResult};

/// Variable with the address of the model.
const ADDRESS: &str = "OPENAI_BASE_URL";
/// How often a cancellation is checked while nothing arrives.
const STEP: Duration = Duration::from_millis(20);
/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: u64 = 4 << 20;

/// What happens while the model answers.
pub enum ModelEvent<'a> {
    Text(&'a str),
    Thought(&'a str),
    /// Nothing has arrived for a moment.
    Waiting,
}

/// A complete answer.
#[derive(Default)]
pub struct ModelReply {
    pub text: String,
    pub calls: Vec<ModelCall>,
    pub finish: String,
}

#[derive(Default)]
pub struct ModelCall {
    pub id: String,
    pub name: String,
    arguments: String,
}

/// Why an answer is missing or incomplete.
pub enum NoReply {
    /// The turn has ended.
    TurnEnd(TurnEnd),
    /// The model failed.
    Failure(String),
}

impl From<TurnEnd> for NoReply {
    fn from(end: TurnEnd) -> NoReply {
        NoReply::TurnEnd(end)
    }
}

impl From<io::Error> for NoReply {
    fn from(error: io::Error) -> NoReply {
        NoReply::Failure(format!("the connection to the model failed: {error}"))
    }
}

impl ModelCall {
    /// The arguments. Invalid JSON counts as no arguments.
    pub fn arguments(&self) -> Value {
        serde_json::from_str(&self.arguments).unwrap_or_else(|_| json!({}))
    }

    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "type": "function",
            "function": { "name": self.name, "arguments": self.arguments },
        })
    }
}

/// The address of the model, if one is configured.
pub fn address() -> Option<String> {
    let address = std::env::var(ADDRESS).ok()?;
    address.starts_with("http://").then_some(address)
}

/// Asks the model, and reports its answer piece by piece.
pub fn ask(
    address: &str,
    body: &Value,
    on_event: &mut dyn FnMut(ModelEvent) -> TurnResult,
) -> Result<ModelReply, NoReply> {
    let place = address.trim_start_matches("http://");
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(STEP))?;
    let body = body.to_string();
    // With HTTP 1.0, the end of the connection is the end of the body.
    write!(
        &stream,
        "POST /{}/chat/completions HTTP/1.0\r\nhost: {host}\r\nauthorization: Bearer mock\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        path.trim_end_matches('/'),
        body.len(),
    )?;
    let mut lines = Lines {
        reader: BufReader::new(stream),
        on_event,
    };
    let status = lines.next()?.unwrap_or_default();
    let status = status.split(' ').nth(1).unwrap_or_default().to_owned();
    while lines.next()?.is_some_and(|line| !line.is_empty()) {}
    if status != "200" {
        return Err(NoReply::Failure(format!(
            "the model answered with status {status}"
        )));
    }
    read_reply(&mut lines)
}

struct Lines<'a> {
    reader: BufReader<TcpStream>,
    on_event: &'a mut dyn FnMut(ModelEvent) -> TurnResult,
}

impl Lines<'_> {
    /// The next line without its end, or `None` at the end of the connection.
    fn next(&mut self) -> Result<Option<String>, NoReply> {
        let mut line = Vec::new();
        loop {
            let mut limited = self.reader.by_ref().take(MAX_LINE_BYTES);
            match limited.read_until(b'\n', &mut line) {
                Ok(_) if line.is_empty() => return Ok(None),
                Ok(_) => {
                    let text = String::from_utf8_lossy(&line);
                    return Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()));
                }
                Err(error) if is_timeout(&error) => (self.on_event)(ModelEvent::Waiting)?,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn read_reply(lines: &mut Lines) -> Result<ModelReply, NoReply> {
    let failure = |why: &str| NoReply::Failure(why.to_owned());
    let mut reply = ModelReply::default();
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            continue;
        }
        let Some(data) = line.strip_prefix("data: ") else {
            return Err(failure("the model sent a malformed stream"));
        };
        if data == "[DONE]" {
            break;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else {
            return Err(failure("the model sent a malformed stream"));
        };
        if let Some(error) = event.get("error") {
            return Err(NoReply::Failure(format!("the model failed: {error}")));
        }
        let Some(choice) = event.pointer("/choices/0") else {
            continue;
        };
        reply.add(choice, lines.on_event)?;
    }
    match reply.finish.is_empty() {
        true => Err(failure("the answer of the model is incomplete")),
        false => Ok(reply),
    }
}

impl ModelReply {
    fn add(
        &mut self,
        choice: &Value,
        on_event: &mut dyn FnMut(ModelEvent) -> TurnResult,
    ) -> Result<(), NoReply> {
        let word = |value: &Value, path: &str| {
            let text = value.pointer(path).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let thought = word(choice, "/delta/reasoning_content");
        if !thought.is_empty() {
            on_event(ModelEvent::Thought(&thought))?;
        }
        let text = word(choice, "/delta/content");
        if !text.is_empty() {
            on_event(ModelEvent::Text(&text))?;
            self.text.push_str(&text);
        }
        let calls = choice
            .pointer("/delta/tool_calls")
            .and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            let id = word(call, "/id");
            if !id.is_empty() {
                self.calls.push(ModelCall {
                    id,
                    name: word(call, "/function/name"),
                    arguments: String::new(),
                });
            }
            if let Some(last) = self.calls.last_mut() {
                last.arguments.push_str(&word(call, "/function/arguments"));
            }
        }
        let finish = word(choice, "/finish_reason");
        if !finish.is_empty() {
            self.finish = finish;
        }
        Ok(())
    }
}
