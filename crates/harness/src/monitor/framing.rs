//! Lines: TR-01 to TR-04.

use super::frame::LineFrame;
use super::{ConversationState, Ending, LineView, Monitor, MonitorNotes};
use agentproto_wire::{Direction, Envelope, EnvelopeFlaw, MessageKind};

#[derive(Default)]
pub struct FramingMonitor {
    /// The line on which an incomplete value started.
    object_start: Option<u64>,
    /// The last line, if the process ended before the line did.
    not_ended: Option<u64>,
}

impl Monitor for FramingMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        match view.line.direction {
            Direction::FromAgent => {}
            Direction::Stderr => return stderr(view, state, notes),
            _ => return,
        }
        for frame in &state.frames {
            self.check(frame, view, notes);
        }
        if let Some(envelope) = view.envelope {
            match not_a_message(envelope) {
                Some(why) => notes.violation("TR-03", why, &[view.line.number]),
                None => notes.pass("TR-03"),
            }
        }
    }

    fn on_end(&mut self, ending: &Ending, _: &ConversationState, notes: &mut MonitorNotes) {
        // A process that was killed may stop in the middle of a line.
        if !ending.is_orderly {
            return;
        }
        if let Some(from) = self.object_start {
            notes.violation("TR-02", unfinished(from), &[from]);
        } else if let Some(line) = self.not_ended {
            let what = "the last message does not end with a line feed";
            notes.suspicion("TR-02", what, &[line]);
        }
    }
}

impl FramingMonitor {
    fn check(&mut self, frame: &LineFrame, view: &LineView<'_>, notes: &mut MonitorNotes) {
        let number = view.line.number;
        if !matches!(
            frame,
            LineFrame::NotUtf8 { .. }
                | LineFrame::Cut
                | LineFrame::NotEnded
                | LineFrame::Ambiguous(_)
        ) {
            notes.pass("TR-01");
        }
        match frame {
            LineFrame::Whole => notes.pass("TR-02"),
            LineFrame::Several(count) => {
                let what =
                    format!("{count} messages on one line; each message must be on its own line");
                notes.violation("TR-02", what, &[number]);
            }
            // TR-03 requires valid messages. This is one value on one line, so no other framing
            // requirement applies. Names only SHOULD be unique, so it is a warning.
            LineFrame::Ambiguous(why) => notes.suspicion("TR-03", why.clone(), &[number]),
            LineFrame::Started => self.object_start = Some(number),
            LineFrame::Continued => {}
            LineFrame::Joined { from } => {
                self.object_start = None;
                let what = format!(
                    "one message spans the lines {from} to {number}; it must be on one line, \
                     without line feeds inside"
                );
                notes.violation("TR-02", what, &[*from, number]);
            }
            LineFrame::Unfinished { from } => {
                self.object_start = None;
                notes.violation("TR-02", unfinished(*from), &[*from]);
            }
            LineFrame::NotUtf8 { at } => {
                let byte = view.line.bytes.get(*at).copied().unwrap_or_default();
                let what =
                    format!("byte 0x{byte:02x} at offset {at} of the line is not valid UTF-8");
                notes.violation("TR-01", what, &[number]);
            }
            LineFrame::Empty => {
                notes.suspicion("TR-03", "empty line on stdout", &[number]);
            }
            LineFrame::NotJson(why) => {
                let what = format!("a line on stdout is not JSON: {why}");
                notes.violation("TR-03", what, &[number]);
            }
            LineFrame::NotEnded => self.not_ended = view.json.map(|_| number),
            LineFrame::Cut => {}
        }
    }
}

fn unfinished(from: u64) -> String {
    format!("the JSON value that starts on line {from} is never completed")
}

fn stderr(view: &LineView<'_>, state: &ConversationState, notes: &mut MonitorNotes) {
    match state.frames.first() {
        Some(LineFrame::NotUtf8 { at }) => {
            let what = format!("stderr is not valid UTF-8 from byte {at} of this line");
            notes.violation("TR-04", what, &[view.line.number]);
        }
        _ if view.line.bytes.is_empty() => {}
        _ => notes.pass("TR-04"),
    }
}

/// Why a JSON value is not a JSON-RPC message at all.
fn not_a_message(envelope: &Envelope) -> Option<String> {
    for flaw in &envelope.flaws {
        match flaw {
            EnvelopeFlaw::NotAnObject(found) => {
                return Some(format!(
                    "a line on stdout is {found}; a JSON-RPC message must be an object"
                ));
            }
            EnvelopeFlaw::Method(found) => {
                return Some(format!("`method` is {found}; it must be a string"));
            }
            EnvelopeFlaw::Id(found) if !matches!(envelope.kind, MessageKind::Response { .. }) => {
                return Some(format!("`id` is {found}; it must be a string or a number"));
            }
            _ => {}
        }
    }
    (envelope.kind == MessageKind::Other).then(|| {
        "a JSON object on stdout is neither request, notification nor response: it has no \
         `method`, `id`, `result` or `error`"
            .to_owned()
    })
}
