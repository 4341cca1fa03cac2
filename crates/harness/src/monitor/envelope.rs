//! Envelopes: TR-05, TR-06, TR-07, and members that JSON-RPC does not define.

use super::{ConversationState, LineView, Monitor, MonitorNotes};
use agentproto_wire::{Direction, EnvelopeFlaw, MessageKind};

#[derive(Default)]
pub struct EnvelopeMonitor;

impl Monitor for EnvelopeMonitor {
    fn on_line(&mut self, view: &LineView<'_>, _: &ConversationState, notes: &mut MonitorNotes) {
        let Some(envelope) = view.envelope else {
            return;
        };
        // The framing monitor reports what is not a message.
        if view.line.direction != Direction::FromAgent || envelope.kind == MessageKind::Other {
            return;
        }
        let lines = match view.answers {
            Some(request) => vec![view.line.number, request.line],
            None => vec![view.line.number],
        };
        let mut broken = [false; 3];
        let mut has_id = true;
        for flaw in &envelope.flaws {
            let (requirement, what) = match flaw {
                EnvelopeFlaw::Version(found) => (
                    "TR-05",
                    format!("`jsonrpc` is {found}; every message must have `\"jsonrpc\": \"2.0\"`"),
                ),
                EnvelopeFlaw::ResultAndError => (
                    "TR-06",
                    "a response has both `result` and `error`; it must have exactly one of them"
                        .to_owned(),
                ),
                EnvelopeFlaw::NeitherResultNorError => (
                    "TR-06",
                    "a response has neither `result` nor `error`; it must have exactly one of them"
                        .to_owned(),
                ),
                // The monitor of ids reports it, because the message may answer a notification.
                EnvelopeFlaw::NoId => {
                    has_id = false;
                    continue;
                }
                EnvelopeFlaw::Error(why) => (
                    "TR-07",
                    format!(
                        "`error` must be an object with an integer `code` and a string `message`: {why}"
                    ),
                ),
                EnvelopeFlaw::Member(name) => (
                    "EX-01",
                    format!("`{name}` is not a member of a JSON-RPC message"),
                ),
                _ => continue,
            };
            let place = ["TR-05", "TR-06", "TR-07"]
                .iter()
                .position(|s| *s == requirement);
            if let Some(flag) = place.and_then(|place| broken.get_mut(place)) {
                *flag = true;
            }
            notes.violation(requirement, what, &lines);
        }
        let [version, response, error] = broken;
        if !version {
            notes.pass("TR-05");
        }
        if let MessageKind::Response { is_error, .. } = &envelope.kind {
            if !response && has_id {
                notes.pass("TR-06");
            }
            if *is_error && !error && !response {
                notes.pass("TR-07");
            }
        }
    }
}
