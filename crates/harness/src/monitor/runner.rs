//! Passes the lines of one connection to its monitors.

use serde_json::Value;

use super::frame::FrameReader;
use super::{ConversationState, Ending, LineView, Monitor, MonitorNotes};
use agentproto_wire::{Direction, Envelope, Line};

/// The monitors of one connection, and what they noted.
pub struct MonitorRunner {
    monitors: Vec<Box<dyn Monitor>>,
    reader: FrameReader,
    state: ConversationState,
    notes: MonitorNotes,
    /// Whether the agent owed a response when its stdin was closed.
    owed_response: Option<bool>,
}

/// The content of a line. Invalid framing is noted, and parsed as far as possible.
#[derive(Clone, Debug, Default)]
pub struct ParsedLine {
    /// First JSON value on the line.
    pub json: Option<Value>,
    /// JSON-RPC envelope of that value.
    pub envelope: Option<Envelope>,
    /// Further messages on the same line, which the spec does not allow.
    pub rest: Vec<(Value, Envelope)>,
}

impl MonitorRunner {
    /// Starts a connection with these monitors.
    pub fn new(monitors: Vec<Box<dyn Monitor>>) -> MonitorRunner {
        MonitorRunner {
            monitors,
            reader: FrameReader::default(),
            state: ConversationState::default(),
            notes: MonitorNotes::default(),
            owed_response: None,
        }
    }

    /// Handles the next line, of any direction.
    pub fn on_line(&mut self, line: &Line) -> ParsedLine {
        // An agent may treat a carriage return as part of the message and reject it.
        if line.direction == Direction::ToAgent && line.bytes.last() == Some(&b'\r') {
            self.state.invalid_sent += 1;
        }
        let (frames, values) = self.reader.read(line);
        self.state.frames = frames;
        let mut messages = values.into_iter().map(|value| {
            let envelope = Envelope::of(&value);
            (value, envelope)
        });
        let first = messages.next();
        let rest: Vec<(Value, Envelope)> = messages.collect();
        self.notify(line, first.as_ref());
        for message in &rest {
            self.state.frames.clear();
            self.notify(line, Some(message));
        }
        let (json, envelope) = first.unzip();
        ParsedLine {
            json,
            envelope,
            rest,
        }
    }

    fn notify(&mut self, line: &Line, message: Option<&(Value, Envelope)>) {
        let (json, envelope) = (message.map(|m| &m.0), message.map(|m| &m.1));
        let answers = envelope.and_then(|e| self.state.answered_by(line.direction, e));
        let view = LineView {
            line,
            json,
            envelope,
            answers: answers.as_ref(),
        };
        for monitor in &mut self.monitors {
            monitor.on_line(&view, &self.state, &mut self.notes);
        }
        self.state.take(line.direction, line.number, json, envelope);
    }

    /// The agent's stdin was closed. Responses that it owes now cannot be expected.
    pub fn input_closed(&mut self) {
        let mut request = self.state.to_agent.values();
        let owed_response = request.any(|request| request.answers == 0);
        self.owed_response.get_or_insert(owed_response);
    }

    /// The response to this request did not arrive within the time limit.
    pub fn timed_out(&mut self, id: &Value) {
        self.state.timed_out.insert(super::id_key(id));
    }

    /// Describes the end of the connection. The same rules apply to live runs and recordings.
    pub fn ending(&self, last_line: u64, exits_by_itself: bool) -> Ending {
        Ending {
            is_orderly: exits_by_itself && self.owed_response == Some(false),
            last_line,
        }
    }

    /// Ends the connection and returns all notes.
    pub fn finish(&mut self, ending: &Ending) -> MonitorNotes {
        for monitor in &mut self.monitors {
            monitor.on_end(ending, &self.state, &mut self.notes);
        }
        std::mem::take(&mut self.notes)
    }

    /// The state of the conversation so far.
    pub fn state(&self) -> &ConversationState {
        &self.state
    }
}
