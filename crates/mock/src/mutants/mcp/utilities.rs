//! Ping, progress, cancellation, logging and pages.

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
            .says("Progress names a token that nobody gave.")
            .out(
                method("notifications/progress"),
                sets("/params/progressToken", "nobody-knows"),
            ),
        wrong("mcp-progress-after-end", "MCP-PROG-03")
            .says("Progress goes on after the result.")
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
            .says("A cancelled request goes on to its end.")
            .heard_as(method("notifications/cancelled"), ignores()),
        wrong("mcp-logging-undeclared", "MCP-LOG-01")
            .says("Log messages are sent, but no capability says so.")
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
            .says("A level that does not exist can be set.")
            .heard_as(method("logging/setLevel"), replies(json!({}))),
        wrong("mcp-logging-too-much", "MCP-LOG-04")
            .says("Log messages below the level are sent.")
            .scenario("updates")
            .heard(
                both(method("logging/setLevel"), is("/params/level", "emergency")),
                sets("/params/level", "debug"),
            ),
        wrong("mcp-cancel-of-nothing-ends", "MCP-CANC-03")
            .says("A cancellation that names no open request ends the process.")
            .tamper_in(|context, message| {
                let id = message.pointer("/params/requestId");
                let open = id.is_some_and(|id| context.open.contains_key(&id.to_string()));
                match calls(&message, "notifications/cancelled") && !open {
                    true => (None, vec![Frame::Exit(1)]),
                    false => pass(message),
                }
            }),
        wrong("mcp-cancel-of-the-client", "MCP-CANC-04")
            .says("Requests of the client are cancelled by the server when they are done.")
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
            .says("A cursor that was never given is taken.")
            .heard(method("tools/list"), removes("/params/cursor")),
    ]
}
