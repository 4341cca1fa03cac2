//! Defects of ping, progress, cancellation, logging and pagination.

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame};

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("mcp-ping-unanswered", "MCP-PING-01")
            .describe("ping is never answered.")
            .replace_incoming(method("ping"), ignores()),
        mutant("mcp-ping-pong", "MCP-PING-02")
            .describe("ping is answered with a string.")
            .outgoing(answers("ping"), sets("/result", "pong")),
        mutant("mcp-progress-stands-still", "MCP-PROG-02")
            .describe("Progress is always 1.")
            .outgoing(
                method("notifications/progress"),
                sets("/params/progress", 1),
            ),
        mutant("mcp-progress-other-token", "MCP-PROG-01")
            .describe("Progress notifications have an unknown token.")
            .outgoing(
                method("notifications/progress"),
                sets("/params/progressToken", "nobody-knows"),
            ),
        mutant("mcp-progress-after-end", "MCP-PROG-03")
            .describe("Progress notifications are sent after the result.")
            .tamper_out(|_, summary, message| {
                let token = summary
                    .request_params
                    .pointer("/_meta/progressToken")
                    .cloned();
                let mut frames = send(message);
                if let (true, Some(token)) = (summary.answers("tools/call"), token) {
                    frames.extend(send(json!({
                        "jsonrpc": "2.0",
                        "method": "notifications/progress",
                        "params": { "progressToken": token, "progress": 1000 },
                    })));
                }
                frames
            }),
        mutant("mcp-cancel-answered", "MCP-CANC-01")
            .describe("A canceled request is answered with an error.")
            .tamper_in(|context, message| {
                let id = message.pointer("/params/requestId").cloned();
                let is_open = |id: &Value| context.open.contains_key(&id.to_string());
                let open = id.as_ref().is_some_and(is_open);
                if !calls(&message, "notifications/cancelled") || !open {
                    return pass(message);
                }
                let error = json!({ "code": -32800, "message": "cancelled" });
                let frame = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                (Some(message), send(frame))
            }),
        mutant("mcp-cancel-ignored", "MCP-CANC-02")
            .describe("The work of a canceled request continues to its end.")
            .replace_incoming(method("notifications/cancelled"), ignores()),
        mutant("mcp-logging-undeclared", "MCP-LOG-01")
            .describe("Log messages are sent, but the capability `logging` is not declared.")
            .scenario("updates")
            .outgoing(
                answers("initialize"),
                removes("/result/capabilities/logging"),
            ),
        mutant("mcp-logging-odd-level", "MCP-LOG-02")
            .describe("Log messages have the level `verbose`.")
            .scenario("updates")
            .outgoing(
                method("notifications/message"),
                sets("/params/level", "verbose"),
            ),
        mutant("mcp-logging-any-level", "MCP-LOG-03")
            .describe("An unknown log level can be set.")
            .replace_incoming(method("logging/setLevel"), replies(json!({}))),
        mutant("mcp-logging-too-much", "MCP-LOG-04")
            .describe("Log messages below the level are sent.")
            .scenario("updates")
            .incoming(
                both(method("logging/setLevel"), is("/params/level", "emergency")),
                sets("/params/level", "debug"),
            ),
        mutant("mcp-cancel-of-nothing-ends", "MCP-CANC-03")
            .describe("A cancellation that names no open request makes the process exit.")
            .tamper_in(|context, message| {
                let id = message.pointer("/params/requestId");
                let open = id.is_some_and(|id| context.open.contains_key(&id.to_string()));
                match calls(&message, "notifications/cancelled") && !open {
                    true => (None, vec![MessageFrame::Exit(1)]),
                    false => pass(message),
                }
            }),
        mutant("mcp-cancel-of-the-client", "MCP-CANC-04")
            .describe("The server cancels requests of the client after it answered them.")
            .tamper_out(|_, summary, message| {
                let cancelled = json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": { "requestId": message.get("id") },
                });
                match summary.answers("tools/list") {
                    true => vec![MessageFrame::Json(message), MessageFrame::Json(cancelled)],
                    false => send(message),
                }
            }),
        mutant("mcp-pages-null-cursor", "MCP-PAGE-01")
            .describe("The last page has a `nextCursor` of null.")
            .outgoing(
                answers("tools/list"),
                sets("/result/nextCursor", Value::Null),
            ),
        mutant("mcp-pages-any-cursor", "MCP-PAGE-02")
            .describe("An unknown cursor is accepted.")
            .incoming(method("tools/list"), removes("/params/cursor")),
    ]
}
