//! Envelopes: TR-05, TR-06, TR-07, and members that JSON-RPC does not define.

use super::{Ledger, Monitor, Notes, Seen};
use agentproto_wire::{Direction, Flaw, Kind};

#[derive(Default)]
pub struct Envelopes;

impl Monitor for Envelopes {
    fn see(&mut self, seen: &Seen<'_>, _: &Ledger, notes: &mut Notes) {
        let Some(envelope) = seen.envelope else {
            return;
        };
        // The framing monitor reports what is not a message.
        if seen.line.direction != Direction::FromAgent || envelope.kind == Kind::Other {
            return;
        }
        let lines = match seen.answers {
            Some(asked) => vec![seen.line.number, asked.line],
            None => vec![seen.line.number],
        };
        let mut broken = [false; 3];
        for flaw in &envelope.flaws {
            let (statement, what) = match flaw {
                Flaw::Version(found) => (
                    "TR-05",
                    format!("`jsonrpc` is {found}; every message must have `\"jsonrpc\": \"2.0\"`"),
                ),
                Flaw::ResultAndError => (
                    "TR-06",
                    "a response has both `result` and `error`; it must have exactly one".to_owned(),
                ),
                Flaw::NeitherResultNorError => (
                    "TR-06",
                    "a response has neither `result` nor `error`; it must have exactly one"
                        .to_owned(),
                ),
                Flaw::NoId => (
                    "TR-06",
                    "a response has no `id`; it must repeat the id of the request".to_owned(),
                ),
                Flaw::Error(why) => (
                    "TR-07",
                    format!(
                        "`error` must be an object with an integer `code` and a string `message`: {why}"
                    ),
                ),
                Flaw::Member(name) => (
                    "EX-01",
                    format!("`{name}` is not a member of a JSON-RPC message"),
                ),
                _ => continue,
            };
            let place = ["TR-05", "TR-06", "TR-07"]
                .iter()
                .position(|s| *s == statement);
            if let Some(flag) = place.and_then(|place| broken.get_mut(place)) {
                *flag = true;
            }
            notes.broken(statement, what, &lines);
        }
        let [version, response, error] = broken;
        if !version {
            notes.held("TR-05");
        }
        if let Kind::Response { is_error, .. } = &envelope.kind {
            if !response {
                notes.held("TR-06");
            }
            if *is_error && !error && !response {
                notes.held("TR-07");
            }
        }
    }
}
