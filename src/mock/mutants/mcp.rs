//! Single-fault MCP servers. The requirement is an id of the suite `mcp`, which says the statement
//! and its place in the specification.

use serde_json::{Value, json};

use super::tools::*;
use super::{Frame, Mutant, Tamper};

pub static GROUPS: &[&[Mutant]] = &[BASE, TOOLS, UTILITIES];

static BASE: &[Mutant] = &[
    Mutant {
        id: "mcp-stdio-log-line",
        requirement: "MCP-STDIO-03",
        wrong: "A log line stands on stdout before each list of tools.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("tools/list") {
            true => vec![raw("[info] listing tools\n"), Frame::Json(message)],
            false => send(message),
        }),
    },
    Mutant {
        id: "mcp-stdio-pretty-printed",
        requirement: "MCP-STDIO-02",
        wrong: "The list of tools is spread over several lines.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("tools/list") {
            true => vec![raw(format!("{message:#}\n"))],
            false => send(message),
        }),
    },
    Mutant {
        id: "mcp-stdio-latin1",
        requirement: "MCP-STDIO-01",
        wrong: "Results carry a byte that is no UTF-8.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, mut message| {
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
    },
    Mutant {
        id: "mcp-base-no-jsonrpc",
        requirement: "MCP-BASE-01",
        wrong: "The list of tools lacks `jsonrpc`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/list"), |m| {
                remove(m, "/jsonrpc")
            })
        }),
    },
    Mutant {
        id: "mcp-base-id-as-text",
        requirement: "MCP-BASE-04",
        wrong: "Numbers as ids are answered as strings.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let number = message.get("id").is_some_and(Value::is_number);
            let answered = sent.is_result || sent.is_error;
            change(message, answered && number, |m| {
                let id = m.get("id").map(Value::to_string);
                set(m, "/id", id.unwrap_or_default());
            })
        }),
    },
    Mutant {
        id: "mcp-base-result-and-error",
        requirement: "MCP-BASE-05",
        wrong: "Results come with an `error` of null.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.is_result, |m| set(m, "/error", Value::Null))
        }),
    },
    Mutant {
        id: "mcp-base-code-text",
        requirement: "MCP-BASE-06",
        wrong: "Error codes are strings.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.is_error, |m| set(m, "/error/code", "-32601"))
        }),
    },
    Mutant {
        id: "mcp-base-null-request-id",
        requirement: "MCP-BASE-02",
        wrong: "Questions to the client have the id null.",
        scenario: "default",
        tamper: Tamper::Both(
            |context, _, message| {
                let request = is_request(&message);
                if request && let Some(id) = message.get("id") {
                    context.notes.insert("last", id.clone());
                }
                change(message, request, |m| set(m, "/id", Value::Null))
            },
            |context, message| {
                let reply = message.get("method").is_none();
                let last = context.notes.get("last").cloned();
                alter(message, reply && last.is_some(), |m| {
                    set(m, "/id", last.unwrap_or_default());
                })
            },
        ),
    },
    Mutant {
        id: "mcp-base-answers-notification",
        requirement: "MCP-BASE-07",
        wrong: "notifications/initialized is answered.",
        scenario: "default",
        tamper: Tamper::In(
            |_, message| match calls(&message, "notifications/initialized") {
                true => refuse(&message, -32601),
                false => pass(message),
            },
        ),
    },
    Mutant {
        id: "mcp-base-unknown-method",
        requirement: "MCP-BASE-10",
        wrong: "An unknown method is an internal error.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let unknown = message.pointer("/error/code") == Some(&json!(-32601));
            change(message, unknown, |m| set(m, "/error/code", -32603))
        }),
    },
    Mutant {
        id: "mcp-lifecycle-echoes-version",
        requirement: "MCP-LIFE-06",
        wrong: "Whatever version is asked for is answered.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let asked = sent.asked.get("protocolVersion").cloned();
            change(message, sent.answers("initialize"), |m| {
                set(m, "/result/protocolVersion", asked.unwrap_or_default());
            })
        }),
    },
    Mutant {
        id: "mcp-lifecycle-other-version",
        requirement: "MCP-LIFE-05",
        wrong: "2024-11-05 is answered to whoever asks for a version that is known.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let known = message.pointer("/result/protocolVersion").cloned();
            let same = sent.asked.get("protocolVersion") == known.as_ref();
            change(message, sent.answers("initialize") && same, |m| {
                set(m, "/result/protocolVersion", "2024-11-05");
            })
        }),
    },
    Mutant {
        id: "mcp-lifecycle-no-server-info",
        requirement: "MCP-LIFE-03",
        wrong: "The answer to initialize has no `serverInfo`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/serverInfo");
            })
        }),
    },
    Mutant {
        id: "mcp-lifecycle-no-capabilities",
        requirement: "MCP-LIFE-02",
        wrong: "The answer to initialize has no `capabilities`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/capabilities");
            })
        }),
    },
    Mutant {
        id: "mcp-lifecycle-early-request",
        requirement: "MCP-LIFE-04",
        wrong: "The client's roots are asked for before it says that it is ready.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let early = json!({ "jsonrpc": "2.0", "id": 900_000, "method": "roots/list" });
            match sent.answers("initialize") {
                true => vec![Frame::Json(message), Frame::Json(early)],
                false => send(message),
            }
        }),
    },
];

static TOOLS: &[Mutant] = &[
    Mutant {
        id: "mcp-tools-undeclared",
        requirement: "MCP-TOOL-01",
        wrong: "There are tools, but no capability says so.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/capabilities/tools");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-no-schema",
        requirement: "MCP-TOOL-03",
        wrong: "Tools have no `inputSchema`.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                remove(tool, "/inputSchema")
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-list-schema",
        requirement: "MCP-TOOL-04",
        wrong: "The `inputSchema` of a tool describes a list.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                set(tool, "/inputSchema", json!({ "type": "array" }));
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-same-names",
        requirement: "MCP-TOOL-07",
        wrong: "All tools have the same name.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                set(tool, "/name", "start")
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-odd-names",
        requirement: "MCP-TOOL-06",
        wrong: "Names of tools have spaces.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                let name = format!("{} a turn", text(tool, "/name"));
                set(tool, "/name", name);
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-unknown-taken",
        requirement: "MCP-TOOL-12",
        wrong: "A call of a tool that does not exist succeeds.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let name = text(&message, "/params/name");
            let known = matches!(name, "start" | "reply" | "");
            match calls(&message, "tools/call") && !known {
                true => answer(&message, json!({ "content": [] })),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "mcp-tools-no-content",
        requirement: "MCP-TOOL-08",
        wrong: "Results have no `content`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                remove(m, "/result/content");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-odd-content",
        requirement: "MCP-TOOL-09",
        wrong: "Results are of the type `markdown`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                each(m, "/result/content", |block| {
                    set(block, "/type", "markdown")
                });
            })
        }),
    },
    Mutant {
        id: "mcp-tools-unlike-schema",
        requirement: "MCP-TOOL-11",
        wrong: "Structured results lack a required field.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                remove(m, "/result/structuredContent/text");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-no-structure",
        requirement: "MCP-TOOL-10",
        wrong: "Results have no `structuredContent`, though the tools promise it.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                remove(m, "/result/structuredContent");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-mistake-hidden",
        requirement: "MCP-TOOL-14",
        wrong: "A call with bad arguments looks like a success.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                set(m, "/result/isError", false);
            })
        }),
    },
];

static UTILITIES: &[Mutant] = &[
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
        id: "mcp-elicitation-unasked",
        requirement: "MCP-ELIC-01",
        wrong: "Questions are sent to clients that do not take them.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let start = calls(&message, "initialize");
            alter(message, start, |m| {
                set(m, "/params/capabilities/elicitation", json!({}));
            })
        }),
    },
    Mutant {
        id: "mcp-elicitation-nested",
        requirement: "MCP-ELIC-03",
        wrong: "A form has a field that is an object.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/create", |m| {
                let field = json!({ "type": "object", "properties": {} });
                set(m, "/params/requestedSchema/properties/more", field);
            })
        }),
    },
    Mutant {
        id: "mcp-elicitation-no-message",
        requirement: "MCP-ELIC-02",
        wrong: "Questions have no `message`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/create", |m| {
                remove(m, "/params/message");
            })
        }),
    },
];
