//! One connection as its monitors see it.

use serde_json::Value;

use super::{Ending, Ledger, Monitor, Notes, Seen};
use crate::wire::{Direction, Envelope, Line};

pub struct Watch {
    monitors: Vec<Box<dyn Monitor>>,
    ledger: Ledger,
    notes: Notes,
}

impl Watch {
    pub fn new(monitors: Vec<Box<dyn Monitor>>) -> Watch {
        Watch {
            monitors,
            ledger: Ledger::default(),
            notes: Notes::default(),
        }
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Takes a line; gives what it says, where it says something.
    pub fn line(&mut self, line: &Line) -> (Option<Value>, Option<Envelope>) {
        let judged = matches!(line.direction, Direction::ToAgent | Direction::FromAgent);
        let json: Option<Value> = match judged {
            true => serde_json::from_slice(&line.bytes).ok(),
            false => None,
        };
        let envelope = json.as_ref().map(Envelope::of);
        let answers = envelope
            .as_ref()
            .and_then(|envelope| self.ledger.answered_by(line.direction, envelope));
        let seen = Seen {
            line,
            json: json.as_ref(),
            envelope: envelope.as_ref(),
            answers: answers.as_ref(),
        };
        for monitor in &mut self.monitors {
            monitor.see(&seen, &self.ledger, &mut self.notes);
        }
        if judged {
            let number = line.number;
            self.ledger
                .take(line.direction, number, json.as_ref(), envelope.as_ref());
        }
        (json, envelope)
    }

    pub fn end(mut self, ending: &Ending) -> Notes {
        for monitor in &mut self.monitors {
            monitor.end(ending, &self.ledger, &mut self.notes);
        }
        self.notes
    }
}
