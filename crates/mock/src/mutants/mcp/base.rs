//! Defects of messages, and of the start and end of a connection.

use std::io::Write;

use serde_json::{Value, json};

use crate::DEAF_FOR;
use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant};

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("mcp-stdio-log-line", "MCP-STDIO-03")
            .says("A log line is written to stdout before each list of tools.")
            .out_as(answers("tools/list"), noise("[info] listing tools\n")),
        wrong("mcp-stdio-pretty-printed", "MCP-STDIO-02")
            .says("The response to tools/list is spread over several lines.")
            .out_as(answers("tools/list"), |_, message| {
                vec![raw(format!("{message:#}\n"))]
            }),
        wrong("mcp-stdio-latin1", "MCP-STDIO-01")
            .says("Results contain a byte that is not valid UTF-8.")
            .tamper_out(|_, sent, mut message| {
                if !sent.answers("tools/call") {
                    return send(message);
                }
                set(&mut message, "/result/content/0/text", "caf@");
                let mut bytes = message.to_string().into_bytes();
                bytes
                    .iter_mut()
                    .filter(|b| **b == b'@')
                    .for_each(|b| *b = 0xe9);
                bytes.push(b'\n');
                vec![raw(bytes)]
            }),
        wrong("mcp-base-no-jsonrpc", "MCP-BASE-01")
            .says("The response to tools/list has no `jsonrpc`.")
            .out(answers("tools/list"), removes("/jsonrpc")),
        wrong("mcp-base-id-as-text", "MCP-BASE-04")
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
        wrong("mcp-base-result-and-error", "MCP-BASE-05")
            .says("Results have an `error` of null.")
            .out(results(), sets("/error", Value::Null)),
        wrong("mcp-base-code-text", "MCP-BASE-06")
            .says("Error codes are strings.")
            .out(errors(), sets("/error/code", "-32601")),
        wrong("mcp-base-null-request-id", "MCP-BASE-02")
            .says("Requests of the server have the id null.")
            .tamper_out(|context, _, message| {
                let request = is_request(&message);
                if request && let Some(id) = message.get("id") {
                    context.notes.insert("last", id.clone());
                }
                change(message, request, |m| set(m, "/id", Value::Null))
            })
            .tamper_in(|context, message| {
                let reply = message.get("method").is_none();
                let last = context.notes.get("last").cloned();
                alter(message, reply && last.is_some(), |m| {
                    set(m, "/id", last.unwrap_or_default());
                })
            }),
        wrong("mcp-base-answers-notification", "MCP-BASE-07")
            .says("notifications/initialized is answered.")
            .heard_as(method("notifications/initialized"), refuses(-32601)),
        wrong("mcp-base-unknown-method", "MCP-BASE-10")
            .says("An unknown method is answered with an internal error.")
            .out(code(-32601), sets("/error/code", -32603)),
        wrong("mcp-lifecycle-echoes-version", "MCP-LIFE-06")
            .says("Any requested version is accepted.")
            .tamper_out(|_, sent, message| {
                let asked = sent.asked.get("protocolVersion").cloned();
                change(message, sent.answers("initialize"), |m| {
                    set(m, "/result/protocolVersion", asked.unwrap_or_default());
                })
            }),
        wrong("mcp-lifecycle-other-version", "MCP-LIFE-05")
            .says("Every known version is answered with 2024-11-05.")
            .tamper_out(|_, sent, message| {
                let known = message.pointer("/result/protocolVersion").cloned();
                let same = sent.asked.get("protocolVersion") == known.as_ref();
                change(message, sent.answers("initialize") && same, |m| {
                    set(m, "/result/protocolVersion", "2024-11-05");
                })
            }),
        wrong("mcp-lifecycle-no-server-info", "MCP-LIFE-03")
            .says("The response to initialize has no `serverInfo`.")
            .out(answers("initialize"), removes("/result/serverInfo")),
        wrong("mcp-lifecycle-no-capabilities", "MCP-LIFE-02")
            .says("The response to initialize has no `capabilities`.")
            .out(answers("initialize"), removes("/result/capabilities")),
        wrong("mcp-lifecycle-early-request", "MCP-LIFE-04")
            .says("The server requests roots before `notifications/initialized`.")
            .out_as(
                answers("initialize"),
                then(json!({ "jsonrpc": "2.0", "id": 900_000, "method": "roots/list" })),
            ),
        wrong("mcp-stdio-latin1-log", "MCP-STDIO-04")
            .says("stderr has a byte that is not valid UTF-8.")
            .tamper_out(|_, sent, message| {
                if sent.answers("tools/list") {
                    let _ = std::io::stderr().write_all(b"tools of the caf\xe9 listed\n");
                }
                send(message)
            }),
        wrong("mcp-base-id-again", "MCP-BASE-03")
            .says("The server sends several pings with the same id.")
            .out_as(
                |sent, _| sent.answers("tools/list") || sent.answers("tools/call"),
                first(json!({ "jsonrpc": "2.0", "id": "keep-alive", "method": "ping" })),
            ),
        wrong("mcp-base-two-answers", "MCP-BASE-08")
            .says("tools/list is answered twice.")
            .out_as(answers("tools/list"), twice()),
        wrong("mcp-base-null-result", "MCP-BASE-09")
            .says("logging/setLevel is answered with null.")
            .out(answers("logging/setLevel"), sets("/result", Value::Null)),
        wrong("mcp-base-bad-line-untold", "MCP-BASE-11")
            .says("A line that is not valid JSON is ignored.")
            .out_as(code(-32700), drops()),
        wrong("mcp-base-no-request-taken", "MCP-BASE-12")
            .says("A request that is not JSON-RPC 2.0 is answered with an internal error.")
            .out(code(-32600), sets("/error/code", -32603)),
        wrong("mcp-base-dies-on-bad-line", "MCP-BASE-13")
            .says("A line that is not valid JSON is answered, but then the process exits.")
            .out_as(code(-32700), |_, message| {
                vec![Frame::Json(message), Frame::Exit(1)]
            }),
        wrong("mcp-lifecycle-no-version", "MCP-LIFE-01")
            .says("The response to initialize has no `protocolVersion`.")
            .out(answers("initialize"), removes("/result/protocolVersion")),
        wrong("mcp-lifecycle-offers-older", "MCP-LIFE-07")
            .says("An unknown version is answered with 2025-06-18.")
            .tamper_out(|_, sent, message| {
                let agreed = message.pointer("/result/protocolVersion").cloned();
                let unknown = sent.asked.get("protocolVersion") != agreed.as_ref();
                change(message, sent.answers("initialize") && unknown, |m| {
                    set(m, "/result/protocolVersion", "2025-06-18");
                })
            }),
        wrong("mcp-lifecycle-change-undeclared", "MCP-LIFE-08")
            .says("A change of the list of tools is reported but was not declared.")
            .out_as(
                answers("tools/list"),
                then(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })),
            ),
        wrong("mcp-lifecycle-stays", "MCP-LIFE-09")
            .says("The server does not exit at the end of stdin.")
            .end(|| std::thread::sleep(DEAF_FOR)),
    ]
}
