//! Layers between a server and its stdin and stdout. They see each message, and the `Hand` writes
//! it.
//!
//! A variant expresses a message in another valid way. A mutant makes it wrong. The servers know
//! about neither.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use crate::faults;
use crate::mutants::{Context, Frame, Sent, Tamper};
use crate::variants::Hand;

pub struct Wire {
    pub out: File,
    /// Layers in order, starting at the server.
    layers: Vec<Layer>,
    hand: Hand,
    /// Responses that are held back, each with the messages that must follow it.
    held: Vec<Vec<u8>>,
}

struct Layer {
    tamper: &'static Tamper,
    context: Context,
}

impl Wire {
    pub fn new(out: File, layers: &[&'static Tamper], hand: Hand) -> Wire {
        let layer = |tamper: &&'static Tamper| Layer {
            tamper,
            context: Context::default(),
        };
        Wire {
            out,
            layers: layers.iter().map(layer).collect(),
            hand,
            held: Vec::new(),
        }
    }

    /// Sends a message of the server. Returns whether it is held back until `release`.
    pub fn send(&mut self, message: Value) -> bool {
        let waits = self.hand.reverses && may_wait(&message);
        let frames = self.outwards(vec![Frame::Json(message)], 0);
        if !waits {
            self.release();
            self.write(frames);
            return false;
        }
        let mut bytes = Vec::new();
        for frame in &frames {
            self.put(frame, &mut bytes);
        }
        match (self.held.last_mut(), follows(&frames)) {
            (Some(last), true) => last.extend(bytes),
            _ => self.held.push(bytes),
        }
        true
    }

    /// Writes the messages that are held back, last response first.
    pub fn release(&mut self) {
        while let Some(bytes) = self.held.pop() {
            let _ = self.out.write_all(&bytes);
        }
    }

    fn outwards(&mut self, mut frames: Vec<Frame>, from: usize) -> Vec<Frame> {
        for layer in self.layers.iter_mut().skip(from) {
            let passed = frames.into_iter().flat_map(|frame| match frame {
                Frame::Json(message) => layer.sent(message),
                other => vec![other],
            });
            frames = passed.collect();
        }
        frames
    }

    /// Passes an input line through the layers. Returns `None` if a layer drops it.
    pub fn line(&mut self, line: Vec<u8>, more: bool) -> Option<Vec<u8>> {
        let mut line = Some(line);
        for layer in &mut self.layers {
            layer.context.more = more;
            if let Some(tamper) = layer.tamper.line {
                line = line.and_then(tamper);
            }
        }
        line
    }

    /// Passes an incoming message through the layers. Returns what the server receives.
    pub fn heard(&mut self, message: Value) -> Option<Value> {
        let mut message = message;
        for place in (0..self.layers.len()).rev() {
            let layer = self.layers.get_mut(place)?;
            let (heard, frames) = layer.heard(message);
            let frames = self.outwards(frames, place + 1);
            self.release();
            self.write(frames);
            message = heard?;
            if let Some(layer) = self.layers.get_mut(place) {
                layer.context.hear(&message);
            }
        }
        Some(message)
    }

    /// Handles the end of stdin.
    pub fn ended(&mut self) {
        self.release();
        for layer in &self.layers {
            if let Some(tamper) = layer.tamper.end {
                tamper();
            }
        }
    }

    fn write(&mut self, frames: Vec<Frame>) {
        let mut bytes = Vec::new();
        let mut exit = None;
        for frame in frames {
            match frame {
                Frame::Exit(code) => exit = Some(code),
                frame => self.put(&frame, &mut bytes),
            }
        }
        if !bytes.is_empty() {
            std::thread::sleep(Duration::from_millis(self.hand.late_ms));
        }
        // Ignore write errors: a client that has exited also closes our stdin.
        let _ = self.out.write_all(&bytes);
        if let Some(code) = exit {
            faults::exit(code);
        }
    }

    fn put(&self, frame: &Frame, bytes: &mut Vec<u8>) {
        match frame {
            Frame::Json(message) => {
                (self.hand.write)(message, bytes);
                bytes.push(b'\n');
            }
            Frame::Raw(raw) => bytes.extend_from_slice(raw),
            Frame::Exit(_) => {}
        }
    }
}

/// Whether a message may be held back: responses to session/new, because nothing else in the
/// conversation depends on their order, and the commands of that session, which follow them.
fn may_wait(message: &Value) -> bool {
    let opened = message.pointer("/result/sessionId").is_some();
    opened || is_commands(message)
}

fn is_commands(message: &Value) -> bool {
    let kind = message.pointer("/params/update/sessionUpdate");
    kind.and_then(Value::as_str) == Some("available_commands_update")
}

fn follows(frames: &[Frame]) -> bool {
    matches!(frames.first(), Some(Frame::Json(message)) if is_commands(message))
}

impl Layer {
    fn sent(&mut self, message: Value) -> Vec<Frame> {
        let answered = message.get("method").is_none();
        let id = message.get("id").cloned().unwrap_or(Value::Null);
        let frames = match &self.tamper.out {
            Some(tamper) => {
                let sent = Sent::of(&message, &self.context);
                tamper(&mut self.context, &sent, message)
            }
            None => vec![Frame::Json(message)],
        };
        if answered {
            self.context.answered(&id);
        }
        frames
    }

    fn heard(&mut self, message: Value) -> (Option<Value>, Vec<Frame>) {
        match &self.tamper.heard {
            Some(tamper) => tamper(&mut self.context, message),
            None => (Some(message), Vec::new()),
        }
    }
}
