//! Layers between a server and its stdin and stdout. They see each message, and the
//! `Serialization` writes it.
//!
//! A variant expresses a message in another valid way. A mutant makes it wrong. The servers know
//! about neither.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use crate::faults;
use crate::mutants::{MessageFrame, MessageSummary, Tamper, TamperContext};
use crate::variants::Serialization;

pub struct MessageLayers {
    pub out: File,
    /// Layers in order, starting at the server.
    layers: Vec<Layer>,
    serialization: Serialization,
    /// Responses that are held back, each with the messages that must follow it.
    held_back: Vec<Vec<u8>>,
}

struct Layer {
    tamper: &'static Tamper,
    context: TamperContext,
}

impl MessageLayers {
    pub fn new(
        out: File,
        layers: &[&'static Tamper],
        serialization: Serialization,
    ) -> MessageLayers {
        let layer = |tamper: &&'static Tamper| Layer {
            tamper,
            context: TamperContext::default(),
        };
        MessageLayers {
            out,
            layers: layers.iter().map(layer).collect(),
            serialization,
            held_back: Vec::new(),
        }
    }

    /// Sends a message of the server. Returns whether it is held back until `release`.
    pub fn send(&mut self, message: Value) -> bool {
        let waits = self.serialization.reverses && may_wait(&message);
        let frames = self.pass_outgoing(vec![MessageFrame::Json(message)], 0);
        if !waits {
            self.release();
            self.write(frames);
            return false;
        }
        let mut bytes = Vec::new();
        for frame in &frames {
            self.serialize(frame, &mut bytes);
        }
        match (self.held_back.last_mut(), follows(&frames)) {
            (Some(last), true) => last.extend(bytes),
            _ => self.held_back.push(bytes),
        }
        true
    }

    /// Writes the messages that are held back, last response first.
    pub fn release(&mut self) {
        while let Some(bytes) = self.held_back.pop() {
            let _ = self.out.write_all(&bytes);
        }
    }

    fn pass_outgoing(&mut self, mut frames: Vec<MessageFrame>, from: usize) -> Vec<MessageFrame> {
        for layer in self.layers.iter_mut().skip(from) {
            let passed = frames.into_iter().flat_map(|frame| match frame {
                MessageFrame::Json(message) => layer.outgoing(message),
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
    pub fn receive(&mut self, message: Value) -> Option<Value> {
        let mut message = message;
        for index in (0..self.layers.len()).rev() {
            let layer = self.layers.get_mut(index)?;
            let (received, frames) = layer.incoming(message);
            let frames = self.pass_outgoing(frames, index + 1);
            self.release();
            self.write(frames);
            message = received?;
            if let Some(layer) = self.layers.get_mut(index) {
                layer.context.remember_request(&message);
            }
        }
        Some(message)
    }

    /// Passes a request to the model through the layers.
    pub fn edit_model_request(&mut self, body: &mut Value) {
        for layer in &mut self.layers {
            if let Some(tamper) = &layer.tamper.model {
                tamper(&mut layer.context, body);
            }
        }
    }

    /// Handles the end of stdin.
    pub fn end_of_input(&mut self) {
        self.release();
        for layer in &self.layers {
            if let Some(tamper) = layer.tamper.end {
                tamper();
            }
        }
    }

    fn write(&mut self, frames: Vec<MessageFrame>) {
        let mut bytes = Vec::new();
        let mut exit = None;
        for frame in frames {
            match frame {
                MessageFrame::Exit(code) => exit = Some(code),
                frame => self.serialize(&frame, &mut bytes),
            }
        }
        if !bytes.is_empty() {
            std::thread::sleep(Duration::from_millis(self.serialization.delay_ms));
        }
        // Ignore write errors: a client that has exited also closes our stdin.
        let _ = self.out.write_all(&bytes);
        if let Some(code) = exit {
            faults::exit(code);
        }
    }

    fn serialize(&self, frame: &MessageFrame, bytes: &mut Vec<u8>) {
        match frame {
            MessageFrame::Json(message) => {
                (self.serialization.write)(message, bytes);
                bytes.push(b'\n');
            }
            MessageFrame::Raw(raw) => bytes.extend_from_slice(raw),
            MessageFrame::Exit(_) => {}
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

fn follows(frames: &[MessageFrame]) -> bool {
    matches!(frames.first(), Some(MessageFrame::Json(message)) if is_commands(message))
}

impl Layer {
    fn outgoing(&mut self, message: Value) -> Vec<MessageFrame> {
        let answered = message.get("method").is_none();
        let id = message.get("id").cloned().unwrap_or(Value::Null);
        let frames = match &self.tamper.outgoing {
            Some(tamper) => {
                let summary = MessageSummary::of(&message, &self.context);
                tamper(&mut self.context, &summary, message)
            }
            None => vec![MessageFrame::Json(message)],
        };
        if answered {
            self.context.forget_request(&id);
        }
        frames
    }

    fn incoming(&mut self, message: Value) -> (Option<Value>, Vec<MessageFrame>) {
        match &self.tamper.incoming {
            Some(tamper) => tamper(&mut self.context, message),
            None => (Some(message), Vec::new()),
        }
    }
}
