//! Passes the lines of one connection to its monitors.

use serde_json::Value;

use super::frame::Reader;
use super::{Ending, Ledger, Monitor, Notes, Seen};
use agentproto_wire::{Direction, Envelope, Line};

pub struct Watch {
    monitors: Vec<Box<dyn Monitor>>,
    reader: Reader,
    ledger: Ledger,
    notes: Notes,
    /// Whether the agent owed a response when its stdin was closed.
    owed: Option<bool>,
}

/// The content of a line. Invalid framing is noted, and parsed as far as possible.
#[derive(Clone, Debug, Default)]
pub struct Read {
    pub json: Option<Value>,
    pub envelope: Option<Envelope>,
    /// Further messages on the same line, which the spec does not allow.
    pub rest: Vec<(Value, Envelope)>,
}

impl Watch {
    pub fn new(monitors: Vec<Box<dyn Monitor>>) -> Watch {
        Watch {
            monitors,
            reader: Reader::default(),
            ledger: Ledger::default(),
            notes: Notes::default(),
            owed: None,
        }
    }

    /// Handles the next line, of any direction.
    pub fn line(&mut self, line: &Line) -> Read {
        // An agent may treat a carriage return as part of the message and reject it.
        if line.direction == Direction::ToAgent && line.bytes.last() == Some(&b'\r') {
            self.ledger.nonsense_sent += 1;
        }
        let (frames, values) = self.reader.read(line);
        self.ledger.frames = frames;
        let mut messages = values.into_iter().map(|value| {
            let envelope = Envelope::of(&value);
            (value, envelope)
        });
        let first = messages.next();
        let rest: Vec<(Value, Envelope)> = messages.collect();
        self.show(line, first.as_ref());
        for message in &rest {
            self.ledger.frames.clear();
            self.show(line, Some(message));
        }
        let (json, envelope) = first.unzip();
        Read {
            json,
            envelope,
            rest,
        }
    }

    fn show(&mut self, line: &Line, message: Option<&(Value, Envelope)>) {
        let (json, envelope) = (message.map(|m| &m.0), message.map(|m| &m.1));
        let answers = envelope.and_then(|e| self.ledger.answered_by(line.direction, e));
        let seen = Seen {
            line,
            json,
            envelope,
            answers: answers.as_ref(),
        };
        for monitor in &mut self.monitors {
            monitor.see(&seen, &self.ledger, &mut self.notes);
        }
        self.ledger
            .take(line.direction, line.number, json, envelope);
    }

    /// The agent's stdin was closed. Responses that it owes now cannot be expected.
    pub fn input_closed(&mut self) {
        let mut asked = self.ledger.to_agent.values();
        let owes = asked.any(|asked| asked.answers == 0);
        self.owed.get_or_insert(owes);
    }

    /// The response to this request did not arrive within the time limit.
    pub fn gave_up(&mut self, id: &Value) {
        self.ledger.given_up.insert(super::id_key(id));
    }

    /// Describes the end of the connection. The same rules apply to live runs and recordings.
    pub fn ending(&self, last_line: u64, exits_by_itself: bool) -> Ending {
        Ending {
            is_orderly: exits_by_itself && self.owed == Some(false),
            last_line,
        }
    }

    /// Ends the connection and returns all notes.
    pub fn end(&mut self, ending: &Ending) -> Notes {
        for monitor in &mut self.monitors {
            monitor.end(ending, &self.ledger, &mut self.notes);
        }
        std::mem::take(&mut self.notes)
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}
