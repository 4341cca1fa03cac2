//! Defects of messages, and of the start and end of a connection.

use std::io::Write;

use serde_json::{Value, json};

use crate::IGNORE_EOF_TIME;
use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame};

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("mcp-stdio-log-line", "MCP-STDIO-03")
            .describe("A log line is written to stdout before each list of tools.")
            .replace_outgoing(answers("tools/list"), noise("[info] listing tools\n")),
        mutant("mcp-stdio-pretty-printed", "MCP-STDIO-02")
            .describe("The response to tools/list is spread over several lines.")
            .replace_outgoing(answers("tools/list"), |_, message| {
                vec![raw(format!("{message:#}\n"))]
            }),
        mutant("mcp-stdio-latin1", "MCP-STDIO-01")
            .describe("Results contain a byte that is not valid UTF-8.")
            .tamper_out(|_, summary, mut message| {
                if !summary.answers("tools/call") {
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
        mutant("mcp-base-no-jsonrpc", "MCP-BASE-01")
            .describe("The response to tools/list has no `jsonrpc`.")
            .outgoing(answers("tools/list"), removes("/jsonrpc")),
        mutant("mcp-base-id-as-text", "MCP-BASE-04")
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
        mutant("mcp-base-result-and-error", "MCP-BASE-05")
            .describe("Results have an `error` of null.")
            .outgoing(results(), sets("/error", Value::Null)),
        mutant("mcp-base-code-text", "MCP-BASE-06")
            .describe("Error codes are strings.")
            .outgoing(errors(), sets("/error/code", "-32601")),
        mutant("mcp-base-null-request-id", "MCP-BASE-02")
            .describe("Requests of the server have the id null.")
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
        mutant("mcp-base-answers-notification", "MCP-BASE-07")
            .describe("notifications/initialized is answered.")
            .replace_incoming(method("notifications/initialized"), rejects(-32601)),
        mutant("mcp-base-unknown-method", "MCP-BASE-10")
            .describe("An unknown method is answered with an internal error.")
            .outgoing(code(-32601), sets("/error/code", -32603)),
        mutant("mcp-lifecycle-echoes-version", "MCP-LIFE-06")
            .describe("Any requested version is accepted.")
            .tamper_out(|_, summary, message| {
                let request_params = summary.request_params.get("protocolVersion").cloned();
                change(message, summary.answers("initialize"), |m| {
                    set(
                        m,
                        "/result/protocolVersion",
                        request_params.unwrap_or_default(),
                    );
                })
            }),
        mutant("mcp-lifecycle-other-version", "MCP-LIFE-05")
            .describe("Every known version is answered with 2024-11-05.")
            .tamper_out(|_, summary, message| {
                let known = message.pointer("/result/protocolVersion").cloned();
                let same = summary.request_params.get("protocolVersion") == known.as_ref();
                change(message, summary.answers("initialize") && same, |m| {
                    set(m, "/result/protocolVersion", "2024-11-05");
                })
            }),
        mutant("mcp-lifecycle-no-server-info", "MCP-LIFE-03")
            .describe("The response to initialize has no `serverInfo`.")
            .outgoing(answers("initialize"), removes("/result/serverInfo")),
        mutant("mcp-lifecycle-no-capabilities", "MCP-LIFE-02")
            .describe("The response to initialize has no `capabilities`.")
            .outgoing(answers("initialize"), removes("/result/capabilities")),
        mutant("mcp-lifecycle-early-request", "MCP-LIFE-04")
            .describe("The server requests roots before `notifications/initialized`.")
            .replace_outgoing(
                answers("initialize"),
                then(json!({ "jsonrpc": "2.0", "id": 900_000, "method": "roots/list" })),
            ),
        mutant("mcp-stdio-latin1-log", "MCP-STDIO-04")
            .describe("stderr has a byte that is not valid UTF-8.")
            .tamper_out(|_, summary, message| {
                if summary.answers("tools/list") {
                    let _ = std::io::stderr().write_all(b"tools of the caf\xe9 listed\n");
                }
                send(message)
            }),
        mutant("mcp-base-id-again", "MCP-BASE-03")
            .describe("The server sends several pings with the same id.")
            .replace_outgoing(
                |summary, _| summary.answers("tools/list") || summary.answers("tools/call"),
                first(json!({ "jsonrpc": "2.0", "id": "keep-alive", "method": "ping" })),
            ),
        mutant("mcp-base-two-answers", "MCP-BASE-08")
            .describe("tools/list is answered twice.")
            .replace_outgoing(answers("tools/list"), twice()),
        mutant("mcp-base-null-result", "MCP-BASE-09")
            .describe("logging/setLevel is answered with null.")
            .outgoing(answers("logging/setLevel"), sets("/result", Value::Null)),
        mutant("mcp-base-bad-line-untold", "MCP-BASE-11")
            .describe("A line that is not valid JSON is ignored.")
            .replace_outgoing(code(-32700), drops()),
        mutant("mcp-base-no-request-taken", "MCP-BASE-12")
            .describe("A request that is not JSON-RPC 2.0 is answered with an internal error.")
            .outgoing(code(-32600), sets("/error/code", -32603)),
        mutant("mcp-base-dies-on-bad-line", "MCP-BASE-13")
            .describe("A line that is not valid JSON is answered, but then the process exits.")
            .replace_outgoing(code(-32700), |_, message| {
                vec![MessageFrame::Json(message), MessageFrame::Exit(1)]
            }),
        mutant("mcp-lifecycle-no-version", "MCP-LIFE-01")
            .describe("The response to initialize has no `protocolVersion`.")
            .outgoing(answers("initialize"), removes("/result/protocolVersion")),
        mutant("mcp-lifecycle-offers-older", "MCP-LIFE-07")
            .describe("An unknown version is answered with 2025-06-18.")
            .tamper_out(|_, summary, message| {
                let agreed = message.pointer("/result/protocolVersion").cloned();
                let unknown = summary.request_params.get("protocolVersion") != agreed.as_ref();
                change(message, summary.answers("initialize") && unknown, |m| {
                    set(m, "/result/protocolVersion", "2025-06-18");
                })
            }),
        mutant("mcp-lifecycle-change-undeclared", "MCP-LIFE-08")
            .describe("A change of the list of tools is reported but was not declared.")
            .replace_outgoing(
                answers("tools/list"),
                then(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })),
            ),
        mutant("mcp-lifecycle-stays", "MCP-LIFE-09")
            .describe("The server does not exit at the end of stdin.")
            .end(|| std::thread::sleep(IGNORE_EOF_TIME)),
    ]
}
