//! Defects of the requests to the client.

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame};

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("mcp-roots-unasked", "MCP-ROOT-01")
            .describe("The server requests roots from every client.")
            .tamper_in(|_, message| {
                let roots = json!({ "jsonrpc": "2.0", "id": "roots", "method": "roots/list" });
                match calls(&message, "notifications/initialized") {
                    true => (Some(message), send(roots)),
                    false => pass(message),
                }
            }),
        mutant("mcp-sampling-unasked", "MCP-SAMP-01")
            .describe("The server requests sampling from every client.")
            .replace_outgoing(answers("tools/call"), first(sample(Some(100)))),
        mutant("mcp-sampling-no-limit", "MCP-SAMP-02")
            .describe("A sampling request has no limit of tokens.")
            .tamper_out(|context, summary, message| {
                let may = context.notes.contains_key("sampling");
                match may && summary.answers("tools/call") {
                    true => vec![
                        MessageFrame::Json(sample(None)),
                        MessageFrame::Json(message),
                    ],
                    false => send(message),
                }
            })
            .tamper_in(|context, message| {
                if message.pointer("/params/capabilities/sampling").is_some() {
                    context.first("sampling");
                }
                pass(message)
            }),
        mutant("mcp-elicitation-unasked", "MCP-ELIC-01")
            .describe("Elicitations are sent to clients that do not support them.")
            .incoming(
                method("initialize"),
                sets("/params/capabilities/elicitation", json!({})),
            ),
        mutant("mcp-elicitation-nested", "MCP-ELIC-03")
            .describe("A form has a field that is an object.")
            .outgoing(
                method("elicitation/create"),
                sets(
                    "/params/requestedSchema/properties/more",
                    json!({ "type": "object", "properties": {} }),
                ),
            ),
        mutant("mcp-elicitation-no-message", "MCP-ELIC-02")
            .describe("Elicitations have no `message`.")
            .outgoing(method("elicitation/create"), removes("/params/message")),
        mutant("mcp-elicitation-declined-hangs", "MCP-ELIC-04")
            .describe("A call hangs after the user declined.")
            .replace_incoming(is("/result/action", "decline"), ignores()),
        mutant("mcp-elicitation-page-without-id", "MCP-ELIC-05")
            .describe("A URL elicitation has no `elicitationId`.")
            .outgoing(method("elicitation/create"), |m| {
                remove(m, "/params/requestedSchema");
                set(m, "/params/mode", "url");
                set(m, "/params/url", "https://example.com/colors");
            }),
        mutant("mcp-elicitation-end-of-nothing", "MCP-ELIC-06")
            .describe("The completion of a URL elicitation is reported although none was sent.")
            .replace_outgoing(
                answers("tools/call"),
                first(json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/elicitation/complete",
                    "params": { "elicitationId": "nobody-asked" },
                })),
            ),
    ]
}

/// Sampling request to the client.
fn sample(max: Option<u32>) -> Value {
    let content = json!({ "type": "text", "text": "Which color?" });
    let mut message = json!({
        "jsonrpc": "2.0",
        "id": "sample",
        "method": "sampling/createMessage",
        "params": { "messages": [{ "role": "user", "content": content }] },
    });
    if let Some(max) = max {
        set(&mut message, "/params/maxTokens", max);
    }
    message
}
