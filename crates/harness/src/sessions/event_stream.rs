//! Reads an event stream in the background while the probe does something else.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::context::read_json;
use super::http::{Head, HttpError, OpenResponse};
use super::sse::{SseEvent, SseItem, SseLines, SseReader};
use crate::probe::Log;
use agentproto_wire::Direction;

/// Maximum number of events that are kept, more than any probe needs.
const MAX_EVENTS: usize = 100_000;

#[derive(Default)]
struct StreamState {
    events: Vec<SseEvent>,
    comments: Vec<(Instant, u64)>,
    /// Why the stream ended. `None` while it is open.
    ended: Option<String>,
}

/// An event stream. Dropping it closes the connection.
pub struct EventStream {
    pub head: Head,
    /// Transcript lines of the request and of the response head.
    pub lines: [u64; 2],
    state: Arc<Mutex<StreamState>>,
    changed: watch::Receiver<()>,
    body: Body,
    log: Arc<Log>,
}

enum Body {
    /// Read in the background until this is dropped.
    Stream(#[allow(dead_code, reason = "only its drop matters")] AbortOnDrop),
    /// Not a stream: read on demand.
    Whole(Box<OpenResponse>),
    Taken,
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EventStream {
    pub fn new(mut opened: OpenResponse, log: Arc<Log>, lines: [u64; 2]) -> EventStream {
        let (sender, changed) = watch::channel(());
        let state: Arc<Mutex<StreamState>> = Arc::default();
        let head = opened.head.clone();
        let with_body = |body| EventStream {
            head: head.clone(),
            lines,
            state: Arc::clone(&state),
            changed: changed.clone(),
            body,
            log: Arc::clone(&log),
        };
        if head.media_type() != "text/event-stream" {
            return with_body(Body::Whole(Box::new(opened)));
        }
        let (state_copy, log) = (Arc::clone(&state), Arc::clone(&log));
        let reading = tokio::spawn(async move {
            let mut cut = SseLines::default();
            let mut reader = SseReader::default();
            let why = loop {
                let piece = match opened.next().await {
                    Ok(Some(piece)) => piece,
                    Ok(None) => break "the host ended the stream".to_owned(),
                    Err(error) => break error.describe(),
                };
                let mut state = state_copy.lock();
                for line in cut.push(&piece) {
                    let number = match line.is_empty() {
                        true => 0,
                        false => log.push_short(Direction::FromAgent, &line),
                    };
                    match reader.line(&line, number) {
                        SseItem::Event(event) if state.events.len() < MAX_EVENTS => {
                            state.events.push(event);
                        }
                        SseItem::Comment => state.comments.push((Instant::now(), number)),
                        _ => {}
                    }
                }
                drop(state);
                sender.send_replace(());
            };
            let mut state = state_copy.lock();
            state.ended = Some(why);
            drop(state);
            sender.send_replace(());
        });
        with_body(Body::Stream(AbortOnDrop(reading)))
    }

    /// The whole body if it is not a stream, and its transcript line.
    pub async fn read_body(
        &mut self,
        within: Duration,
    ) -> Result<(Vec<u8>, Option<u64>), HttpError> {
        match std::mem::replace(&mut self.body, Body::Taken) {
            Body::Whole(opened) => {
                let (_, body) = opened.body(within).await?;
                let line =
                    (!body.is_empty()).then(|| self.log.push_short(Direction::FromAgent, &body));
                Ok((body, line))
            }
            other => {
                self.body = other;
                Ok((Vec::new(), None))
            }
        }
    }

    pub fn is_stream(&self) -> bool {
        self.head.status == 200 && self.head.media_type() == "text/event-stream"
    }

    pub fn events(&self) -> Vec<SseEvent> {
        let state = self.state.lock();
        state.events.clone()
    }

    pub fn comments(&self) -> Vec<(Instant, u64)> {
        let state = self.state.lock();
        state.comments.clone()
    }

    /// Why the stream ended. `None` while it is open.
    pub fn ended(&self) -> Option<String> {
        let state = self.state.lock();
        state.ended.clone()
    }

    /// Waits until a condition on the events holds. Returns false if the time limit or the end of
    /// the stream comes first.
    pub async fn until(
        &mut self,
        within: Duration,
        mut wanted: impl FnMut(&[SseEvent]) -> bool,
    ) -> bool {
        let until = Instant::now() + within;
        loop {
            self.changed.borrow_and_update();
            if wanted(&self.events()) {
                return true;
            }
            if self.ended().is_some() {
                return false;
            }
            if !matches!(timeout_at(until, self.changed.changed()).await, Ok(Ok(()))) {
                return wanted(&self.events());
            }
        }
    }

    /// Waits for a comment.
    pub async fn comment(&mut self, within: Duration) -> Option<(Instant, u64)> {
        let until = Instant::now() + within;
        loop {
            self.changed.borrow_and_update();
            if let Some(first) = self.comments().first() {
                return Some(*first);
            }
            if self.ended().is_some()
                || !matches!(timeout_at(until, self.changed.changed()).await, Ok(Ok(())))
            {
                return self.comments().first().copied();
            }
        }
    }

    /// Transcript lines of the turn ends so far.
    pub fn turn_ends(&self) -> Vec<u64> {
        let events = self.events();
        let ends = events.iter().filter(|event| is_turn_end(event));
        ends.flat_map(|event| event.lines.last().copied()).collect()
    }

    /// Waits for this number of turn ends.
    pub async fn turns(&mut self, count: usize, within: Duration) -> bool {
        let enough =
            |events: &[SseEvent]| events.iter().filter(|e| is_turn_end(e)).count() >= count;
        self.until(within, enough).await
    }
}

/// The text of a `line` event, without colors.
pub fn line_of(event: &SseEvent) -> Option<String> {
    if event.name != "line" {
        return None;
    }
    let data = read_json(event.data.as_bytes()).ok()?;
    data.get("line").and_then(Value::as_str).map(without_colors)
}

/// Whether a line is output of the agent, and not a message of the host about the session.
pub fn is_agent_output(event: &SseEvent) -> bool {
    let data = read_json(event.data.as_bytes()).ok();
    let stream = data.as_ref().and_then(|data| data.get("stream"));
    event.name == "line" && stream.and_then(Value::as_str) == Some("stdout")
}

/// Whether a line is the end of a turn, whatever its formatting.
pub fn is_turn_end_line(line: &str) -> bool {
    line.contains("turn-end")
}

fn is_turn_end(event: &SseEvent) -> bool {
    line_of(event).is_some_and(|line| is_turn_end_line(&line))
}

/// Removes escape sequences, because a host may color its lines.
pub fn without_colors(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        if chars.next() == Some('[') {
            for c in chars.by_ref() {
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_removed() {
        let red = "\u{1b}[1;31m── turn-end (end_turn) ──\u{1b}[0m";
        assert_eq!(without_colors(red), "── turn-end (end_turn) ──");
        assert!(is_turn_end_line(&without_colors(red)));
        assert_eq!(without_colors("a\u{1b}"), "a");
    }
}
