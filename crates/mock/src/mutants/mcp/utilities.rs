//! Ping, progress, cancellation, logging and pages.

use serde_json::{Value, json};

use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant, Tamper};

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "mcp-ping-unanswered",
        requirement: "MCP-PING-01",
        wrong: "ping is never answered.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "ping") {
            true => swallow(),
            false => pass(message),
        }),
    },
    Mutant {
        id: "mcp-ping-pong",
        requirement: "MCP-PING-02",
        wrong: "ping is answered with a string.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("ping"), |m| set(m, "/result", "pong"))
        }),
    },
    Mutant {
        id: "mcp-progress-stands-still",
        requirement: "MCP-PROG-02",
        wrong: "Progress is always 1.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "notifications/progress", |m| {
                set(m, "/params/progress", 1);
            })
        }),
    },
    Mutant {
        id: "mcp-progress-other-token",
        requirement: "MCP-PROG-01",
        wrong: "Progress names a token that nobody gave.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "notifications/progress", |m| {
                set(m, "/params/progressToken", "nobody-knows");
            })
        }),
    },
    Mutant {
        id: "mcp-progress-after-end",
        requirement: "MCP-PROG-03",
        wrong: "Progress goes on after the result.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
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
    },
    Mutant {
        id: "mcp-cancel-answered",
        requirement: "MCP-CANC-01",
        wrong: "A cancelled request is answered with an error.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
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
    },
    Mutant {
        id: "mcp-cancel-ignored",
        requirement: "MCP-CANC-02",
        wrong: "A cancelled request goes on to its end.",
        scenario: "default",
        tamper: Tamper::In(
            |_, message| match calls(&message, "notifications/cancelled") {
                true => swallow(),
                false => pass(message),
            },
        ),
    },
    Mutant {
        id: "mcp-logging-undeclared",
        requirement: "MCP-LOG-01",
        wrong: "Log messages are sent, but no capability says so.",
        scenario: "updates",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/capabilities/logging");
            })
        }),
    },
    Mutant {
        id: "mcp-logging-odd-level",
        requirement: "MCP-LOG-02",
        wrong: "Log messages have the level `verbose`.",
        scenario: "updates",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "notifications/message", |m| {
                set(m, "/params/level", "verbose");
            })
        }),
    },
    Mutant {
        id: "mcp-logging-any-level",
        requirement: "MCP-LOG-03",
        wrong: "A level that does not exist can be set.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "logging/setLevel") {
            true => answer(&message, json!({})),
            false => pass(message),
        }),
    },
    Mutant {
        id: "mcp-logging-too-much",
        requirement: "MCP-LOG-04",
        wrong: "Log messages below the level are sent.",
        scenario: "updates",
        tamper: Tamper::In(|_, message| {
            let level = calls(&message, "logging/setLevel");
            let known = text(&message, "/params/level") == "emergency";
            alter(message, level && known, |m| {
                set(m, "/params/level", "debug")
            })
        }),
    },
    Mutant {
        id: "mcp-cancel-of-nothing-ends",
        requirement: "MCP-CANC-03",
        wrong: "A cancellation that names no open request ends the process.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
            let id = message.pointer("/params/requestId");
            let open = id.is_some_and(|id| context.open.contains_key(&id.to_string()));
            match calls(&message, "notifications/cancelled") && !open {
                true => (None, vec![Frame::Exit(1)]),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "mcp-cancel-of-the-client",
        requirement: "MCP-CANC-04",
        wrong: "Requests of the client are cancelled by the server when they are done.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
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
    },
    Mutant {
        id: "mcp-pages-null-cursor",
        requirement: "MCP-PAGE-01",
        wrong: "The last page has a `nextCursor` of null.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/list"), |m| {
                set(m, "/result/nextCursor", Value::Null);
            })
        }),
    },
    Mutant {
        id: "mcp-pages-any-cursor",
        requirement: "MCP-PAGE-02",
        wrong: "A cursor that was never given is taken.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let list = calls(&message, "tools/list");
            alter(message, list, |m| remove(m, "/params/cursor"))
        }),
    },
];
