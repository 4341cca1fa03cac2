//! Defects of ping, progress, cancellation, logging and pagination.

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant};

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("mcp-ping-unanswered", "MCP-PING-01")
            .says("ping is never answered.")
            .heard_as(method("ping"), ignores()),
        wrong("mcp-ping-pong", "MCP-PING-02")
            .says("ping is answered with a string.")
            .out(answers("ping"), sets("/result", "pong")),
        wrong("mcp-progress-stands-still", "MCP-PROG-02")
            .says("Progress is always 1.")
            .out(
                method("notifications/progress"),
                sets("/params/progress", 1),
            ),
        wrong("mcp-progress-other-token", "MCP-PROG-01")
            .says("Progress notifications have an unknown token.")
            .out(
                method("notifications/progress"),
                sets("/params/progressToken", "nobody-knows"),
            ),
        wrong("mcp-progress-after-end", "MCP-PROG-03")
            .says("Progress notifications are sent after the result.")
            .tamper_out(|_, sent, message| {
                let token = sent.asked.pointer("/_meta/progressToken").cloned();
                let mut frames = send(message);
                if let (true, Some(token)) = (sent.answers("tools/call"), token) {
                    frames.extend(send(json!({
                        "jsonrpc": "2.0",
                        "method": "notifications/progress",
                        "params": { "progressToken": token, "progress": 1000 },
                    })));
                }
                frames
            }),
        wrong("mcp-cancel-answered", "MCP-CANC-01")
            .says("A cancelled request is answered with an error.")
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
        wrong("mcp-cancel-ignored", "MCP-CANC-02")
            .says("The work of a cancelled request continues to its end.")
            .heard_as(method("notifications/cancelled"), ignores()),
        wrong("mcp-logging-undeclared", "MCP-LOG-01")
            .says("Log messages are sent, but the capability `logging` is not declared.")
            .scenario("updates")
            .out(
                answers("initialize"),
                removes("/result/capabilities/logging"),
            ),
        wrong("mcp-logging-odd-level", "MCP-LOG-02")
            .says("Log messages have the level `verbose`.")
            .scenario("updates")
            .out(
                method("notifications/message"),
                sets("/params/level", "verbose"),
            ),
        wrong("mcp-logging-any-level", "MCP-LOG-03")
            .says("An unknown log level can be set.")
            .heard_as(method("logging/setLevel"), replies(json!({}))),
        wrong("mcp-logging-too-much", "MCP-LOG-04")
            .says("Log messages below the level are sent.")
            .scenario("updates")
            .heard(
                both(method("logging/setLevel"), is("/params/level", "emergency")),
                sets("/params/level", "debug"),
            ),
        wrong("mcp-cancel-of-nothing-ends", "MCP-CANC-03")
            .says("A cancellation that names no open request makes the process exit.")
            .tamper_in(|context, message| {
                let id = message.pointer("/params/requestId");
                let open = id.is_some_and(|id| context.open.contains_key(&id.to_string()));
                match calls(&message, "notifications/cancelled") && !open {
                    true => (None, vec![Frame::Exit(1)]),
                    false => pass(message),
                }
            }),
        wrong("mcp-cancel-of-the-client", "MCP-CANC-04")
            .says("The server cancels requests of the client after it answered them.")
            .tamper_out(|_, sent, message| {
                let cancelled = json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": { "requestId": message.get("id") },
                });
                match sent.answers("tools/list") {
                    true => vec![Frame::Json(message), Frame::Json(cancelled)],
                    false => send(message),
                }
            }),
        wrong("mcp-pages-null-cursor", "MCP-PAGE-01")
            .says("The last page has a `nextCursor` of null.")
            .out(
                answers("tools/list"),
                sets("/result/nextCursor", Value::Null),
            ),
        wrong("mcp-pages-any-cursor", "MCP-PAGE-02")
            .says("An unknown cursor is accepted.")
            .heard(method("tools/list"), removes("/params/cursor")),
    ]
}
