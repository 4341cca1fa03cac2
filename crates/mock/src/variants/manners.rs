//! Variants of the behavior outside the protocol.

use std::io::Write;

use serde_json::{Value, json};

use super::{Variant, looks};
use crate::mutants::tools::*;
use crate::mutants::{Context, Frame, Sent, Tamper};

pub fn variants() -> Vec<Variant> {
    vec![
        looks(
            "chatty",
            "Every message is logged to stderr, in color.",
            Tamper::both(log_sent, log_heard),
        ),
        looks(
            "chatty",
            "Every message is logged to stderr, in color.",
            Tamper::both(log_sent, log_heard),
        )
        .of_mcp(),
        looks(
            "own-notifications",
            "Custom notifications that start with an underscore are sent between the others.",
            Tamper::out(|_, sent, message| {
                let beat =
                    json!({ "jsonrpc": "2.0", "method": "_mock/beat", "params": { "n": 1 } });
                match sent.is_result || sent.method == "session/update" {
                    true => vec![Frame::Json(message), Frame::Json(beat)],
                    false => send(message),
                }
            }),
        ),
    ]
}

fn log(direction: &str, words: &str) {
    let line = format!("\u{1b}[2m12:00:00\u{1b}[0m INFO mock: {direction} {words} – ✓\n");
    // Ignore errors, because the client does not have to read stderr.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn log_sent(_: &mut Context, sent: &Sent, message: Value) -> Frames {
    log("→", &sent.method);
    send(message)
}

fn log_heard(_: &mut Context, message: Value) -> Heard {
    log("←", text(&message, "/method"));
    pass(message)
}
