//! Parses and serializes the frames of the daemon's event streams.

use axum::body::Bytes;
use futures::{Stream, StreamExt};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Event {
        name: String,
        data: String,
    },
    /// A comment, or anything else that is not an event.
    Comment(String),
}

impl Frame {
    pub fn new(name: &str, data: &Value) -> Frame {
        Frame::Event {
            name: name.to_owned(),
            data: data.to_string(),
        }
    }

    /// The data of a `line`.
    pub fn line(&self) -> Option<Value> {
        match self {
            Frame::Event { name, data } if name == "line" => serde_json::from_str(data).ok(),
            _ => None,
        }
    }

    pub fn is_turn_end(&self) -> bool {
        let line = self.line();
        line.is_some_and(|line| {
            line["line"]
                .as_str()
                .unwrap_or_default()
                .contains("turn-end")
        })
    }

    fn parse(text: &str) -> Frame {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim_start().to_owned())
        };
        match (field("event:"), field("data:")) {
            (Some(name), Some(data)) => Frame::Event { name, data },
            _ => Frame::Comment(text.to_owned()),
        }
    }

    pub fn text(&self, crlf: bool) -> String {
        let text = match self {
            Frame::Event { name, data } => {
                let data = data.replace('\n', "\ndata: ");
                format!("event: {name}\ndata: {data}\n\n")
            }
            Frame::Comment(text) => format!("{text}\n\n"),
        };
        match crlf {
            true => text.replace('\n', "\r\n"),
            false => text,
        }
    }
}

/// Splits bytes into whole frames.
pub fn split(bytes: impl Stream<Item = Bytes>) -> impl Stream<Item = Frame> {
    let mut buffer = String::new();
    bytes.flat_map(move |piece| {
        buffer.push_str(&String::from_utf8_lossy(&piece));
        let mut frames = Vec::new();
        while let Some((frame, rest)) = buffer.split_once("\n\n") {
            frames.push(Frame::parse(frame));
            let rest = rest.to_owned();
            buffer = rest;
        }
        futures::stream::iter(frames)
    })
}
