//! Defects in messages of any kind: shapes, methods, errors, extensions.

use serde_json::{Value, json};

use crate::IGNORE_EOF_TIME;
use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame};

pub fn mutants() -> Vec<AgentMutant> {
    [shapes(), methods_and_errors()]
        .into_iter()
        .flatten()
        .collect()
}

fn shapes() -> Vec<AgentMutant> {
    vec![
        mutant("v2-22-boolean-session", "V2-22")
            .describe("The capability `session` is true instead of an object.")
            .outgoing(
                answers("initialize"),
                sets("/result/capabilities/session", true),
            ),
        mutant("v2-22-no-call-id", "V2-22")
            .describe("Updates of tool calls have no toolCallId.")
            .outgoing(
                updates("tool_call_update"),
                removes("/params/update/toolCallId"),
            ),
        mutant("v2-22-no-title", "V2-22")
            .describe("Permission requests have no title.")
            .outgoing(
                method("session/request_permission"),
                removes("/params/title"),
            ),
        mutant("v2-22-meta-text", "V2-22")
            .describe("The `_meta` of updates is a string.")
            .outgoing(method("session/update"), sets("/params/_meta", "mock")),
        mutant("v2-10-odd-update", "V2-10")
            .describe("An update has a custom type without an underscore.")
            .tamper_out(|_, summary, message| {
                if !summary.answers("session/prompt") {
                    return send(message);
                }
                let odd = json!({ "sessionUpdate": "surprise" });
                let odd = update(text(&summary.request_params, "/sessionId"), &odd);
                vec![MessageFrame::Json(message), MessageFrame::Json(odd)]
            }),
        mutant("v2-23-own-field", "V2-23")
            .describe("The response to initialize has a custom field.")
            .outgoing(answers("initialize"), sets("/result/vendor", "mock")),
        mutant("v2-26-other-session", "V2-26")
            .describe("Messages name a session that does not exist.")
            .outgoing(
                updates("agent_message_chunk"),
                sets("/params/sessionId", "other"),
            ),
        mutant("v2-27-plain", "V2-27")
            .describe("The output of a terminal is plain text.")
            .outgoing(
                updates("terminal_output_chunk"),
                sets("/params/update/data", "hello there!"),
            ),
        mutant("v2-31-own-capability", "V2-31")
            .describe("A custom capability is not in `_meta`.")
            .outgoing(
                answers("initialize"),
                sets("/result/capabilities/vendor", json!({})),
            ),
    ]
}

fn methods_and_errors() -> Vec<AgentMutant> {
    vec![
        mutant("v2-24-made-up", "V2-24")
            .describe("The agent sends a notification with an unknown method.")
            .replace_outgoing(
                answers("session/new"),
                then(json!({ "jsonrpc": "2.0", "method": "made_up/notify", "params": {} })),
            ),
        mutant("v2-24-reads", "V2-24")
            .describe("The agent reads a file through the client, as in version 1.")
            .tamper_out(|_, summary, message| {
                if !summary.answers("session/prompt") {
                    return send(message);
                }
                let session = text(&summary.request_params, "/sessionId");
                let params = json!({ "sessionId": session, "path": "/notes.txt" });
                let read = json!({
                    "jsonrpc": "2.0",
                    "id": "read",
                    "method": "fs/read_text_file",
                    "params": params,
                });
                vec![MessageFrame::Json(message), MessageFrame::Json(read)]
            }),
        mutant("v2-25-asks", "V2-25")
            .describe("Every turn asks the user with a form, whatever the client offers.")
            .tamper_out(|_, summary, message| {
                if !summary.answers("session/prompt") {
                    return send(message);
                }
                let schema =
                    json!({ "type": "object", "properties": { "color": { "type": "string" } } });
                let ask = json!({
                    "jsonrpc": "2.0",
                    "id": "ask",
                    "method": "elicitation/create",
                    "params": {
                        "sessionId": text(&summary.request_params, "/sessionId"),
                        "message": "Which color?",
                        "mode": "form",
                        "requestedSchema": schema,
                    },
                });
                vec![MessageFrame::Json(message), MessageFrame::Json(ask)]
            }),
        mutant("v2-28-two-lines", "V2-28")
            .describe("The message of an error has two lines.")
            .outgoing(errors(), sets("/error/message", "no\n  at mock.rs:1")),
        mutant("v2-32-empty-result", "V2-32")
            .describe("Unknown methods are answered with an empty result.")
            .replace_incoming(
                both(method("session/does_not_exist"), has("/id")),
                replies(json!({})),
            ),
        mutant("v2-33-gives-up", "V2-33")
            .describe("Nothing is answered after a request was rejected.")
            .tamper_in(|context, message| {
                if context.notes.contains_key("over") {
                    return drop_message();
                }
                if is_request(&message) && calls(&message, "session/does_not_exist") {
                    context.notes.insert("over", Value::Bool(true));
                }
                pass(message)
            }),
        mutant("v2-34-confused", "V2-34")
            .describe("The first request after an unknown notification fails.")
            .tamper_in(|context, message| {
                if message.get("id").is_some() && context.notes.remove("confused").is_some() {
                    return reject(&message, -32603);
                }
                if text(&message, "/method").ends_with("does_not_exist")
                    && message.get("id").is_none()
                {
                    context.notes.insert("confused", Value::Bool(true));
                }
                pass(message)
            }),
        mutant("v2-35-stays", "V2-35")
            .describe("The process does not exit at the end of stdin.")
            .end(|| std::thread::sleep(IGNORE_EOF_TIME)),
        mutant("v2-36-no-answer", "V2-36")
            .describe("Requests with a custom method are not answered.")
            .replace_incoming(methods("_"), ignores()),
    ]
}

fn update(session: &str, update: &Value) -> Value {
    let params = json!({ "sessionId": session, "update": update });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
}
