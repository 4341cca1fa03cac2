//! Defects of lines, envelopes, ids and errors.

use serde_json::Value;

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant};

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("acp-tr-01-latin1", "TR-01")
            .says("Text chunks contain a byte that is not valid UTF-8.")
            .tamper_out(|_, sent, mut message| {
                if sent.update != "agent_message_chunk" {
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
        wrong("acp-tr-02-pretty-printed", "TR-02")
            .says("The response to session/new is spread over several lines.")
            .out_as(answers("session/new"), |_, message| {
                vec![raw(format!("{message:#}\n"))]
            }),
        wrong("acp-tr-02-two-per-line", "TR-02")
            .says("Each text chunk is on the same line as the next message.")
            .out_as(updates("agent_message_chunk"), |_, message| {
                vec![raw(message.to_string())]
            }),
        wrong("acp-tr-03-banner", "TR-03")
            .says("A greeting is written to stdout before the first response.")
            .tamper_out(|context, _, message| {
                let mut frames = Vec::new();
                if context.first("banner") {
                    frames.push(raw("Welcome to the mock agent!\n"));
                }
                frames.push(Frame::Json(message));
                frames
            }),
        wrong("acp-tr-03-log-line", "TR-03")
            .says("A log line is written to stdout before each response to session/new.")
            .out_as(answers("session/new"), noise("[info] session started\n")),
        wrong("acp-tr-03-bare-json", "TR-03")
            .says(
                "A JSON line that is not a JSON-RPC message precedes each response to session/new.",
            )
            .out_as(answers("session/new"), noise("{\"level\":\"info\"}\n")),
        wrong("acp-tr-03-duplicate-key", "TR-03")
            .says("Results of session/new have a duplicate `id`, and the first one is wrong.")
            .tamper_out(|_, sent, message| match sent.answers("session/new") {
                true => {
                    let text = message.to_string();
                    let rest = text.strip_prefix('{').unwrap_or_default();
                    vec![raw(format!("{{\"id\":\"twin\",{rest}\n"))]
                }
                false => send(message),
            }),
        wrong("acp-tr-05-no-jsonrpc", "TR-05")
            .says("Session updates have no `jsonrpc`.")
            .out(method("session/update"), removes("/jsonrpc")),
        wrong("acp-tr-05-old-version", "TR-05")
            .says("The response to session/new has `jsonrpc` \"1.0\".")
            .out(answers("session/new"), sets("/jsonrpc", "1.0")),
        wrong("acp-tr-06-result-and-error", "TR-06")
            .says("Results have an `error` of null.")
            .out(results(), sets("/error", Value::Null)),
        wrong("acp-tr-06-neither", "TR-06")
            .says("The response to session/list has neither result nor error.")
            .out(answers("session/list"), removes("/result")),
        wrong("acp-tr-07-error-text", "TR-07")
            .says("Errors are plain strings.")
            .out(errors(), sets("/error", "failed")),
        wrong("acp-tr-07-code-text", "TR-07")
            .says("Error codes are strings.")
            .out(errors(), |m| {
                let code = m.pointer("/error/code").map(Value::to_string);
                set(m, "/error/code", code.unwrap_or_default());
            }),
        wrong("acp-tr-07-no-message", "TR-07")
            .says("Errors have no `message`.")
            .out(errors(), removes("/error/message")),
        wrong("acp-tr-08-number-as-text", "TR-08")
            .says("The response to a request with a numeric id has a string id.")
            .out(
                both(
                    |sent, _| sent.is_result || sent.is_error,
                    |_, message| message.get("id").is_some_and(Value::is_number),
                ),
                |m| {
                    let id = m.get("id").map(Value::to_string);
                    set(m, "/id", id.unwrap_or_default());
                },
            ),
        wrong("acp-tr-08-text-lost", "TR-08")
            .says("The response to a request with a string id has the id null.")
            .out(
                both(
                    |sent, _| sent.is_result || sent.is_error,
                    |_, message| message.get("id").is_some_and(Value::is_string),
                ),
                sets("/id", Value::Null),
            ),
        wrong("acp-tr-08-zero-lost", "TR-08")
            .says("The response to a request with the id 0 has the id null.")
            .out(is("/id", 0), sets("/id", Value::Null)),
        wrong("acp-tr-09-two-answers", "TR-09")
            .says("session/new is answered twice.")
            .out_as(answers("session/new"), twice()),
        wrong("acp-tr-09-no-answer", "TR-09")
            .says("session/list is never answered.")
            .heard_as(method("session/list"), ignores()),
        wrong("acp-tr-10-answers-notification", "TR-10")
            .says("An unknown notification is answered with an error.")
            .heard_as(
                |_, message| {
                    (message.get("method").is_some() && message.get("id").is_none())
                        && !["session/cancel", "$/cancel_request"]
                            .iter()
                            .any(|method| calls(message, method))
                        && message.get("jsonrpc").is_some()
                },
                refuses(-32601),
            ),
        wrong("acp-tr-11-internal-error", "TR-11")
            .says("An unknown method is answered with an internal error.")
            .out(code(-32601), sets("/error/code", -32603)),
        wrong("acp-tr-12-internal-error", "TR-12")
            .says("Invalid parameters are answered with an internal error.")
            .out(code(-32602), sets("/error/code", -32603)),
        wrong("acp-tr-13-silent", "TR-13")
            .says("A line that is not valid JSON is not answered.")
            .out_as(code(-32700), drops()),
        wrong("acp-tr-15-takes-anything", "TR-15")
            .says("A request without `jsonrpc` is accepted.")
            .heard(both(requests(), lacks("/jsonrpc")), sets("/jsonrpc", "2.0")),
        wrong("acp-tr-17-same-request-id", "TR-17")
            .says("Every request to the client has the id 1, even while another one is open.")
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
        wrong("acp-tr-22-snake-case", "TR-22")
            .says("Tool calls have `raw_input` instead of `rawInput`.")
            .out(
                updates("tool_call"),
                renames("/params/update", "rawInput", "raw_input"),
            ),
    ]
}
