//! An event stream that is read while the probe does something else.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::http::{Head, Opened, Trouble};
use super::sse::{Event, Heard, Lines, Reader};
use super::stand::read_json;
use crate::probe::Log;
use agentproto_wire::Direction;

/// More than any probe waits for.
const MOST_EVENTS: usize = 100_000;

#[derive(Default)]
struct Read {
    events: Vec<Event>,
    comments: Vec<(Instant, u64)>,
    /// The stream is over.
    ended: Option<String>,
}

/// A stream of events. Dropped, it is hung up.
pub struct Follow {
    pub head: Head,
    /// Lines of the request and of the head of its answer.
    pub lines: [u64; 2],
    read: Arc<Mutex<Read>>,
    heard: watch::Receiver<()>,
    body: Body,
    log: Arc<Log>,
}

enum Body {
    /// Read all the time, until this is dropped.
    Stream(#[allow(dead_code, reason = "what counts is its end")] AbortOnDrop),
    /// Not a stream: read when it is asked for.
    Whole(Box<Opened>),
    Taken,
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Follow {
    pub fn new(mut opened: Opened, log: Arc<Log>, lines: [u64; 2]) -> Follow {
        let (tell, heard) = watch::channel(());
        let read: Arc<Mutex<Read>> = Arc::default();
        let head = opened.head.clone();
        let follow = |body| Follow {
            head: head.clone(),
            lines,
            read: Arc::clone(&read),
            heard: heard.clone(),
            body,
            log: Arc::clone(&log),
        };
        if head.media_type() != "text/event-stream" {
            return follow(Body::Whole(Box::new(opened)));
        }
        let (kept, log) = (Arc::clone(&read), Arc::clone(&log));
        let reading = tokio::spawn(async move {
            let mut cut = Lines::default();
            let mut reader = Reader::default();
            let why = loop {
                let piece = match opened.next().await {
                    Ok(Some(piece)) => piece,
                    Ok(None) => break "the host ended the stream".to_owned(),
                    Err(trouble) => break trouble.told(),
                };
                let mut read = kept.lock();
                for line in cut.push(&piece) {
                    let number = match line.is_empty() {
                        true => 0,
                        false => log.push_short(Direction::FromAgent, &line),
                    };
                    match reader.line(&line, number) {
                        Heard::Event(event) if read.events.len() < MOST_EVENTS => {
                            read.events.push(event);
                        }
                        Heard::Comment => read.comments.push((Instant::now(), number)),
                        _ => {}
                    }
                }
                drop(read);
                tell.send_replace(());
            };
            let mut read = kept.lock();
            read.ended = Some(why);
            drop(read);
            tell.send_replace(());
        });
        follow(Body::Stream(AbortOnDrop(reading)))
    }

    /// The whole body, where it is no stream, and the line that it stands in.
    pub async fn whole(&mut self, within: Duration) -> Result<(Vec<u8>, Option<u64>), Trouble> {
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

    pub fn events(&self) -> Vec<Event> {
        let read = self.read.lock();
        read.events.clone()
    }

    pub fn comments(&self) -> Vec<(Instant, u64)> {
        let read = self.read.lock();
        read.comments.clone()
    }

    /// Why there is no more to come.
    pub fn ended(&self) -> Option<String> {
        let read = self.read.lock();
        read.ended.clone()
    }

    /// Waits until something is true of what came; false where time or the stream is over first.
    pub async fn until(
        &mut self,
        within: Duration,
        mut wanted: impl FnMut(&[Event]) -> bool,
    ) -> bool {
        let until = Instant::now() + within;
        loop {
            self.heard.borrow_and_update();
            if wanted(&self.events()) {
                return true;
            }
            if self.ended().is_some() {
                return false;
            }
            if !matches!(timeout_at(until, self.heard.changed()).await, Ok(Ok(()))) {
                return wanted(&self.events());
            }
        }
    }

    /// Waits for a comment.
    pub async fn comment(&mut self, within: Duration) -> Option<(Instant, u64)> {
        let until = Instant::now() + within;
        loop {
            self.heard.borrow_and_update();
            if let Some(first) = self.comments().first() {
                return Some(*first);
            }
            if self.ended().is_some()
                || !matches!(timeout_at(until, self.heard.changed()).await, Ok(Ok(())))
            {
                return self.comments().first().copied();
            }
        }
    }

    /// Ends of turns so far, with their lines.
    pub fn turn_ends(&self) -> Vec<u64> {
        let events = self.events();
        let ends = events.iter().filter(|event| is_turn_end(event));
        ends.flat_map(|event| event.lines.last().copied()).collect()
    }

    /// Waits for so many ends of turns.
    pub async fn turns(&mut self, count: usize, within: Duration) -> bool {
        let enough = |events: &[Event]| events.iter().filter(|e| is_turn_end(e)).count() >= count;
        self.until(within, enough).await
    }
}

/// The text of a `line` event, without colours.
pub fn line_of(event: &Event) -> Option<String> {
    if event.name != "line" {
        return None;
    }
    let data = read_json(event.data.as_bytes()).ok()?;
    data.get("line").and_then(Value::as_str).map(uncoloured)
}

/// A line of the agent's own: what a host has to say about a session is no output.
pub fn is_said_by_agent(event: &Event) -> bool {
    let data = read_json(event.data.as_bytes()).ok();
    let stream = data.as_ref().and_then(|data| data.get("stream"));
    event.name == "line" && stream.and_then(Value::as_str) == Some("stdout")
}

/// However a host dresses it, the end of a turn calls itself so.
pub fn says_turn_end(line: &str) -> bool {
    line.contains("turn-end")
}

fn is_turn_end(event: &Event) -> bool {
    line_of(event).is_some_and(|line| says_turn_end(&line))
}

/// Without escape sequences: a host may colour its lines.
pub fn uncoloured(text: &str) -> String {
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
    fn colours_are_taken_off() {
        let red = "\u{1b}[1;31m── turn-end (end_turn) ──\u{1b}[0m";
        assert_eq!(uncoloured(red), "── turn-end (end_turn) ──");
        assert!(says_turn_end(&uncoloured(red)));
        assert_eq!(uncoloured("a\u{1b}"), "a");
    }
}
