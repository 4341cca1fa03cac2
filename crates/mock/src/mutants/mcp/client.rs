//! Defects of the requests to the client.

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant};

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("mcp-roots-unasked", "MCP-ROOT-01")
            .says("The server requests roots from every client.")
            .tamper_in(|_, message| {
                let roots = json!({ "jsonrpc": "2.0", "id": "roots", "method": "roots/list" });
                match calls(&message, "notifications/initialized") {
                    true => (Some(message), send(roots)),
                    false => pass(message),
                }
            }),
        wrong("mcp-sampling-unasked", "MCP-SAMP-01")
            .says("The server requests sampling from every client.")
            .out_as(answers("tools/call"), first(sample(Some(100)))),
        wrong("mcp-sampling-no-limit", "MCP-SAMP-02")
            .says("A sampling request has no limit of tokens.")
            .tamper_out(|context, sent, message| {
                let may = context.notes.contains_key("sampling");
                match may && sent.answers("tools/call") {
                    true => vec![Frame::Json(sample(None)), Frame::Json(message)],
                    false => send(message),
                }
            })
            .tamper_in(|context, message| {
                if message.pointer("/params/capabilities/sampling").is_some() {
                    context.first("sampling");
                }
                pass(message)
            }),
        wrong("mcp-elicitation-unasked", "MCP-ELIC-01")
            .says("Elicitations are sent to clients that do not support them.")
            .heard(
                method("initialize"),
                sets("/params/capabilities/elicitation", json!({})),
            ),
        wrong("mcp-elicitation-nested", "MCP-ELIC-03")
            .says("A form has a field that is an object.")
            .out(
                method("elicitation/create"),
                sets(
                    "/params/requestedSchema/properties/more",
                    json!({ "type": "object", "properties": {} }),
                ),
            ),
        wrong("mcp-elicitation-no-message", "MCP-ELIC-02")
            .says("Elicitations have no `message`.")
            .out(method("elicitation/create"), removes("/params/message")),
        wrong("mcp-elicitation-declined-hangs", "MCP-ELIC-04")
            .says("A call hangs after the user declined.")
            .heard_as(is("/result/action", "decline"), ignores()),
        wrong("mcp-elicitation-page-without-id", "MCP-ELIC-05")
            .says("A URL elicitation has no `elicitationId`.")
            .out(method("elicitation/create"), |m| {
                remove(m, "/params/requestedSchema");
                set(m, "/params/mode", "url");
                set(m, "/params/url", "https://example.com/colours");
            }),
        wrong("mcp-elicitation-end-of-nothing", "MCP-ELIC-06")
            .says("The completion of a URL elicitation is reported although none was sent.")
            .out_as(
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
