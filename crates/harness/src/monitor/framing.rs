//! Lines: TR-01 to TR-04.

use super::frame::Frame;
use super::{Ending, Ledger, Monitor, Notes, Seen};
use agentproto_wire::{Direction, Envelope, Flaw, Kind};

#[derive(Default)]
pub struct Framing {
    /// The line on which an incomplete value started.
    begun: Option<u64>,
    /// The last line, if the process ended before the line did.
    not_ended: Option<u64>,
}

impl Monitor for Framing {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        match seen.line.direction {
            Direction::FromAgent => {}
            Direction::Stderr => return stderr(seen, ledger, notes),
            _ => return,
        }
        for frame in &ledger.frames {
            self.judge(frame, seen, notes);
        }
        if let Some(envelope) = seen.envelope {
            match not_a_message(envelope) {
                Some(why) => notes.broken("TR-03", why, &[seen.line.number]),
                None => notes.held("TR-03"),
            }
        }
    }

    fn end(&mut self, ending: &Ending, _: &Ledger, notes: &mut Notes) {
        // A process that was killed may stop in the middle of a line.
        if !ending.is_orderly {
            return;
        }
        if let Some(from) = self.begun {
            notes.broken("TR-02", unfinished(from), &[from]);
        } else if let Some(line) = self.not_ended {
            let what = "the last message does not end with a line feed";
            notes.doubtful("TR-02", what, &[line]);
        }
    }
}

impl Framing {
    fn judge(&mut self, frame: &Frame, seen: &Seen<'_>, notes: &mut Notes) {
        let number = seen.line.number;
        if !matches!(
            frame,
            Frame::NotUtf8 { .. } | Frame::Cut | Frame::NotEnded | Frame::Ambiguous(_)
        ) {
            notes.held("TR-01");
        }
        match frame {
            Frame::Whole => notes.held("TR-02"),
            Frame::Several(count) => {
                let what =
                    format!("{count} messages on one line; each message must be on its own line");
                notes.broken("TR-02", what, &[number]);
            }
            // TR-03 requires valid messages. This is one value on one line, so no other framing
            // requirement applies. Names only SHOULD be unique, so it is a warning.
            Frame::Ambiguous(why) => notes.doubtful("TR-03", why.clone(), &[number]),
            Frame::Begun => self.begun = Some(number),
            Frame::Continued => {}
            Frame::Joined { from } => {
                self.begun = None;
                let what = format!(
                    "one message spans the lines {from} to {number}; it must be on one line, \
                     without line feeds inside"
                );
                notes.broken("TR-02", what, &[*from, number]);
            }
            Frame::Unfinished { from } => {
                self.begun = None;
                notes.broken("TR-02", unfinished(*from), &[*from]);
            }
            Frame::NotUtf8 { at } => {
                let byte = seen.line.bytes.get(*at).copied().unwrap_or_default();
                let what =
                    format!("byte 0x{byte:02x} at offset {at} of the line is not valid UTF-8");
                notes.broken("TR-01", what, &[number]);
            }
            Frame::Empty => {
                notes.doubtful("TR-03", "empty line on stdout", &[number]);
            }
            Frame::NotJson(why) => {
                let what = format!("a line on stdout is not JSON: {why}");
                notes.broken("TR-03", what, &[number]);
            }
            Frame::NotEnded => self.not_ended = seen.json.map(|_| number),
            Frame::Cut => {}
        }
    }
}

fn unfinished(from: u64) -> String {
    format!("the JSON value that starts on line {from} is never completed")
}

fn stderr(seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
    match ledger.frames.first() {
        Some(Frame::NotUtf8 { at }) => {
            let what = format!("stderr is not valid UTF-8 from byte {at} of this line");
            notes.broken("TR-04", what, &[seen.line.number]);
        }
        _ if seen.line.bytes.is_empty() => {}
        _ => notes.held("TR-04"),
    }
}

/// Why a JSON value is not a JSON-RPC message at all.
fn not_a_message(envelope: &Envelope) -> Option<String> {
    for flaw in &envelope.flaws {
        match flaw {
            Flaw::NotAnObject(found) => {
                return Some(format!(
                    "a line on stdout is {found}; a JSON-RPC message must be an object"
                ));
            }
            Flaw::Method(found) => {
                return Some(format!("`method` is {found}; it must be a string"));
            }
            Flaw::Id(found) if !matches!(envelope.kind, Kind::Response { .. }) => {
                return Some(format!("`id` is {found}; it must be a string or a number"));
            }
            _ => {}
        }
    }
    (envelope.kind == Kind::Other).then(|| {
        "a JSON object on stdout is neither request, notification nor response: it has no \
         `method`, `id`, `result` or `error`"
            .to_owned()
    })
}
