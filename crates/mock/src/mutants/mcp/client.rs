//! What the client is asked for.

use serde_json::{Value, json};

use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant, Tamper};

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "mcp-roots-unasked",
        requirement: "MCP-ROOT-01",
        wrong: "Every client is asked for its roots.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let roots = json!({ "jsonrpc": "2.0", "id": "roots", "method": "roots/list" });
            match calls(&message, "notifications/initialized") {
                true => (Some(message), send(roots)),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "mcp-sampling-unasked",
        requirement: "MCP-SAMP-01",
        wrong: "Every client is asked for its model.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("tools/call") {
            true => vec![Frame::Json(sample(Some(100))), Frame::Json(message)],
            false => send(message),
        }),
    },
    Mutant {
        id: "mcp-sampling-no-limit",
        requirement: "MCP-SAMP-02",
        wrong: "The client's model is asked without a limit of tokens.",
        scenario: "default",
        tamper: Tamper::Both(
            |context, sent, message| {
                let may = context.notes.contains_key("sampling");
                match may && sent.answers("tools/call") {
                    true => vec![Frame::Json(sample(None)), Frame::Json(message)],
                    false => send(message),
                }
            },
            |context, message| {
                if message.pointer("/params/capabilities/sampling").is_some() {
                    context.first("sampling");
                }
                pass(message)
            },
        ),
    },
    Mutant {
        id: "mcp-elicitation-unasked",
        requirement: "MCP-ELIC-01",
        wrong: "Questions are sent to clients that do not take them.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let start = calls(&message, "initialize");
            alter(message, start, |m| {
                set(m, "/params/capabilities/elicitation", json!({}));
            })
        }),
    },
    Mutant {
        id: "mcp-elicitation-nested",
        requirement: "MCP-ELIC-03",
        wrong: "A form has a field that is an object.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/create", |m| {
                let field = json!({ "type": "object", "properties": {} });
                set(m, "/params/requestedSchema/properties/more", field);
            })
        }),
    },
    Mutant {
        id: "mcp-elicitation-no-message",
        requirement: "MCP-ELIC-02",
        wrong: "Questions have no `message`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/create", |m| {
                remove(m, "/params/message");
            })
        }),
    },
    Mutant {
        id: "mcp-elicitation-declined-hangs",
        requirement: "MCP-ELIC-04",
        wrong: "A call waits for ever once the user declined.",
        scenario: "default",
        tamper: Tamper::In(
            |_, message| match text(&message, "/result/action") == "decline" {
                true => swallow(),
                false => pass(message),
            },
        ),
    },
    Mutant {
        id: "mcp-elicitation-page-without-id",
        requirement: "MCP-ELIC-05",
        wrong: "A question by URL has no `elicitationId`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/create", |m| {
                remove(m, "/params/requestedSchema");
                set(m, "/params/mode", "url");
                set(m, "/params/url", "https://example.com/colours");
            })
        }),
    },
    Mutant {
        id: "mcp-elicitation-end-of-nothing",
        requirement: "MCP-ELIC-06",
        wrong: "The end of a question by URL is told that nobody asked.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let complete = json!({
                "jsonrpc": "2.0",
                "method": "notifications/elicitation/complete",
                "params": { "elicitationId": "nobody-asked" },
            });
            match sent.answers("tools/call") {
                true => vec![Frame::Json(complete), Frame::Json(message)],
                false => send(message),
            }
        }),
    },
];

/// A question to the client's model.
fn sample(most: Option<u32>) -> Value {
    let content = json!({ "type": "text", "text": "Which colour?" });
    let mut message = json!({
        "jsonrpc": "2.0",
        "id": "sample",
        "method": "sampling/createMessage",
        "params": { "messages": [{ "role": "user", "content": content }] },
    });
    if let Some(most) = most {
        set(&mut message, "/params/maxTokens", most);
    }
    message
}
