//! Defects of lines, envelopes, ids and errors.

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame};

fn is_notification(message: &Value) -> bool {
    let has = |member| message.get(member).is_some();
    has("jsonrpc") && has("method") && !has("id")
}

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-tr-01-latin1", "TR-01")
            .describe("Text chunks contain a byte that is not valid UTF-8.")
            .tamper_out(|_, summary, mut message| {
                if summary.update != "agent_message_chunk" {
                    return send(message);
                }
                set(&mut message, "/params/update/content/text", "caf@");
                let mut bytes = message.to_string().into_bytes();
                bytes
                    .iter_mut()
                    .filter(|b| **b == b'@')
                    .for_each(|b| *b = 0xe9);
                bytes.push(b'\n');
                vec![raw(bytes)]
            }),
        mutant("acp-tr-02-pretty-printed", "TR-02")
            .describe("The response to session/new is spread over several lines.")
            .replace_outgoing(answers("session/new"), |_, message| {
                vec![raw(format!("{message:#}\n"))]
            }),
        mutant("acp-tr-02-two-per-line", "TR-02")
            .describe("Each text chunk is on the same line as the next message.")
            .replace_outgoing(updates("agent_message_chunk"), |_, message| {
                vec![raw(message.to_string())]
            }),
        mutant("acp-tr-03-banner", "TR-03")
            .describe("A greeting is written to stdout before the first response.")
            .tamper_out(|context, _, message| {
                let mut frames = Vec::new();
                if context.first("banner") {
                    frames.push(raw("Welcome to the mock agent!\n"));
                }
                frames.push(MessageFrame::Json(message));
                frames
            }),
        mutant("acp-tr-03-log-line", "TR-03")
            .describe("A log line is written to stdout before each response to session/new.")
            .replace_outgoing(answers("session/new"), noise("[info] session started\n")),
        mutant("acp-tr-03-bare-json", "TR-03")
            .describe(
                "A JSON line that is not a JSON-RPC message precedes each response to session/new.",
            )
            .replace_outgoing(answers("session/new"), noise("{\"level\":\"info\"}\n")),
        mutant("acp-tr-03-duplicate-key", "TR-03")
            .describe("Results of session/new have a duplicate `id`, and the first one is wrong.")
            .tamper_out(|_, summary, message| match summary.answers("session/new") {
                true => {
                    let text = message.to_string();
                    let rest = text.strip_prefix('{').unwrap_or_default();
                    vec![raw(format!("{{\"id\":\"twin\",{rest}\n"))]
                }
                false => send(message),
            }),
        mutant("acp-tr-05-no-jsonrpc", "TR-05")
            .describe("Session updates have no `jsonrpc`.")
            .outgoing(method("session/update"), removes("/jsonrpc")),
        mutant("acp-tr-05-old-version", "TR-05")
            .describe("The response to session/new has `jsonrpc` \"1.0\".")
            .outgoing(answers("session/new"), sets("/jsonrpc", "1.0")),
        mutant("acp-tr-06-result-and-error", "TR-06")
            .describe("Results have an `error` of null.")
            .outgoing(results(), sets("/error", Value::Null)),
        mutant("acp-tr-06-neither", "TR-06")
            .describe("The response to session/list has neither result nor error.")
            .outgoing(answers("session/list"), removes("/result")),
        mutant("acp-tr-06-no-id", "TR-06")
            .describe("The response to session/list has no id.")
            .outgoing(answers("session/list"), removes("/id")),
        mutant("acp-tr-07-error-text", "TR-07")
            .describe("Errors are plain strings.")
            .outgoing(errors(), sets("/error", "failed")),
        mutant("acp-tr-07-code-text", "TR-07")
            .describe("Error codes are strings.")
            .outgoing(errors(), |m| {
                let code = m.pointer("/error/code").map(Value::to_string);
                set(m, "/error/code", code.unwrap_or_default());
            }),
        mutant("acp-tr-07-no-message", "TR-07")
            .describe("Errors have no `message`.")
            .outgoing(errors(), removes("/error/message")),
        mutant("acp-tr-08-number-as-text", "TR-08")
            .describe("The response to a request with a numeric id has a string id.")
            .outgoing(
                both(
                    |summary, _| summary.is_result || summary.is_error,
                    |_, message| message.get("id").is_some_and(Value::is_number),
                ),
                |m| {
                    let id = m.get("id").map(Value::to_string);
                    set(m, "/id", id.unwrap_or_default());
                },
            ),
        mutant("acp-tr-08-text-lost", "TR-08")
            .describe("The response to a request with a string id has the id null.")
            .outgoing(
                both(
                    |summary, _| summary.is_result || summary.is_error,
                    |_, message| message.get("id").is_some_and(Value::is_string),
                ),
                sets("/id", Value::Null),
            ),
        mutant("acp-tr-08-zero-lost", "TR-08")
            .describe("The response to a request with the id 0 has the id null.")
            .outgoing(is("/id", 0), sets("/id", Value::Null)),
        mutant("acp-tr-09-two-answers", "TR-09")
            .describe("session/new is answered twice.")
            .replace_outgoing(answers("session/new"), twice()),
        mutant("acp-tr-09-no-answer", "TR-09")
            .describe("session/list is never answered.")
            .replace_incoming(method("session/list"), ignores()),
        mutant("acp-tr-10-answers-notification", "TR-10")
            .describe("An unknown notification is answered with an error.")
            .replace_incoming(
                |_, message| {
                    (message.get("method").is_some() && message.get("id").is_none())
                        && !["session/cancel", "$/cancel_request"]
                            .iter()
                            .any(|method| calls(message, method))
                        && message.get("jsonrpc").is_some()
                },
                rejects(-32601),
            ),
        mutant("acp-tr-10-answers-cancel", "TR-10")
            .describe("session/cancel is answered with a result whose id is null.")
            .tamper_in(|_, message| {
                let is_cancel = calls(&message, "session/cancel");
                let answer = json!({ "jsonrpc": "2.0", "id": null, "result": null });
                (
                    Some(message),
                    if is_cancel { send(answer) } else { Vec::new() },
                )
            }),
        mutant("acp-tr-10-answers-all", "TR-10")
            .describe("Every notification is answered with a result whose id is null.")
            .tamper_in(|_, message| {
                let is_notification = is_notification(&message);
                let answer = json!({ "jsonrpc": "2.0", "id": null, "result": {} });
                (
                    Some(message),
                    if is_notification {
                        send(answer)
                    } else {
                        Vec::new()
                    },
                )
            }),
        mutant("acp-tr-10-error-without-id", "TR-10")
            .describe("An unknown notification is answered with an error that has no id.")
            .tamper_in(|_, message| {
                let known = ["session/cancel", "$/cancel_request"];
                let is_known = known.iter().any(|method| calls(&message, method));
                if is_known || !is_notification(&message) {
                    return pass(message);
                }
                let error = json!({ "code": -32601, "message": "Method not found" });
                (None, send(json!({ "jsonrpc": "2.0", "error": error })))
            }),
        mutant("acp-tr-11-internal-error", "TR-11")
            .describe("An unknown method is answered with an internal error.")
            .outgoing(code(-32601), sets("/error/code", -32603)),
        mutant("acp-tr-12-internal-error", "TR-12")
            .describe("Invalid parameters are answered with an internal error.")
            .outgoing(code(-32602), sets("/error/code", -32603)),
        mutant("acp-tr-13-silent", "TR-13")
            .describe("A line that is not valid JSON is not answered.")
            .replace_outgoing(code(-32700), drops()),
        mutant("acp-tr-15-takes-anything", "TR-15")
            .describe("A request without `jsonrpc` is accepted.")
            .incoming(both(requests(), lacks("/jsonrpc")), sets("/jsonrpc", "2.0")),
        mutant("acp-tr-17-same-request-id", "TR-17")
            .describe("Every request to the client has the id 1, even while another one is open.")
            .tamper_out(|context, _, message| {
                let request = is_request(&message);
                if request && let Some(id) = message.get("id") {
                    context.notes.insert("last", id.clone());
                }
                change(message, request, |m| set(m, "/id", 1))
            })
            .tamper_in(|context, message| {
                let reply = message.get("method").is_none();
                let last = context.notes.get("last").cloned();
                alter(message, reply && last.is_some(), |m| {
                    set(m, "/id", last.unwrap_or_default());
                })
            }),
        mutant("acp-tr-22-snake-case", "TR-22")
            .describe("Tool calls have `raw_input` instead of `rawInput`.")
            .outgoing(
                updates("tool_call"),
                renames("/params/update", "rawInput", "raw_input"),
            ),
    ]
}
