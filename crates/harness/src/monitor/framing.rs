//! Lines: TR-01 to TR-04.

use super::frame::Frame;
use super::{Ending, Ledger, Monitor, Notes, Seen};
use agentproto_wire::{Direction, Envelope, Flaw, Kind};

#[derive(Default)]
pub struct Framing {
    /// A line that began a value, which is still open.
    begun: Option<u64>,
    /// The last line, where the process ended before it did.
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
        // A process that was killed may stop anywhere.
        if !ending.is_orderly {
            return;
        }
        if let Some(from) = self.begun {
            notes.broken("TR-02", unfinished(from), &[from]);
        } else if let Some(line) = self.not_ended {
            let what = "the last message has no line feed behind it";
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
                    format!("{count} messages stand on one line; each needs a line of its own");
                notes.broken("TR-02", what, &[number]);
            }
            // TR-03 asks for valid messages: this is one line and one value, so no other statement
            // about lines is touched. Names only SHOULD be unique, so it is a warning.
            Frame::Ambiguous(why) => notes.doubtful("TR-03", why.clone(), &[number]),
            Frame::Begun => self.begun = Some(number),
            Frame::Continued => {}
            Frame::Joined { from } => {
                self.begun = None;
                let what = format!(
                    "one message is spread over the lines {from} to {number}; it must stand on one line, \
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
                let what = format!("byte 0x{byte:02x} at offset {at} of the line is no UTF-8");
                notes.broken("TR-01", what, &[number]);
            }
            Frame::Empty => {
                notes.doubtful("TR-03", "an empty line stands on stdout", &[number]);
            }
            Frame::NotJson(why) => {
                let what = format!("a line on stdout is no JSON: {why}");
                notes.broken("TR-03", what, &[number]);
            }
            Frame::NotEnded => self.not_ended = seen.json.map(|_| number),
            Frame::Cut => {}
        }
    }
}

fn unfinished(from: u64) -> String {
    format!("the JSON that line {from} begins is not ended on it, nor on the lines after it")
}

fn stderr(seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
    match ledger.frames.first() {
        Some(Frame::NotUtf8 { at }) => {
            let what = format!("stderr is no UTF-8 from byte {at} of this line on");
            notes.broken("TR-04", what, &[seen.line.number]);
        }
        _ if seen.line.bytes.is_empty() => {}
        _ => notes.held("TR-04"),
    }
}

/// Why this JSON is no JSON-RPC message at all.
fn not_a_message(envelope: &Envelope) -> Option<String> {
    for flaw in &envelope.flaws {
        match flaw {
            Flaw::NotAnObject(found) => {
                return Some(format!(
                    "a line on stdout is {found}; a JSON-RPC message is an object"
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
