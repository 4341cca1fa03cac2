//! Variants of the behavior outside the protocol.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::{AgentVariant, with_tamper};
use crate::mutants::tools::*;
use crate::mutants::{MessageFrame, MessageSummary, Tamper, TamperContext};
use crate::store;

/// How long the variant `stores-at-exit` takes to store its sessions.
const STORE_TIME: Duration = Duration::from_millis(1500);

pub fn variants() -> Vec<AgentVariant> {
    vec![
        with_tamper(
            "chatty",
            "Every message is logged to stderr, in color.",
            Tamper::both(log_outgoing, log_incoming),
        ),
        with_tamper(
            "chatty",
            "Every message is logged to stderr, in color.",
            Tamper::both(log_outgoing, log_incoming),
        )
        .of_mcp(),
        with_tamper(
            "stores-at-exit",
            "Conversations are stored only when stdin is closed, which takes 1.5 s.",
            Tamper {
                incoming: Some(Box::new(|context, message| {
                    if context.first("started") {
                        store::save_at_exit();
                    }
                    pass(message)
                })),
                end: Some(|| {
                    if store::has_unsaved() {
                        std::thread::sleep(STORE_TIME);
                    }
                    store::save_all();
                }),
                ..Tamper::default()
            },
        ),
        with_tamper(
            "own-notifications",
            "Custom notifications that start with an underscore are sent between the others.",
            Tamper::outgoing(|_, summary, message| {
                let beat =
                    json!({ "jsonrpc": "2.0", "method": "_mock/beat", "params": { "n": 1 } });
                match summary.is_result || summary.method == "session/update" {
                    true => vec![MessageFrame::Json(message), MessageFrame::Json(beat)],
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

fn log_outgoing(_: &mut TamperContext, summary: &MessageSummary, message: Value) -> MessageFrames {
    log("→", &summary.method);
    send(message)
}

fn log_incoming(_: &mut TamperContext, message: Value) -> Received {
    log("←", text(&message, "/method"));
    pass(message)
}
