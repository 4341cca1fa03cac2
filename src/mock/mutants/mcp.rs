//! Single-fault MCP servers. The requirement is the statement's place in the specification.

use serde_json::{Value, json};

use super::tools::*;
use super::{Frame, Mutant, Tamper};

pub static GROUPS: &[&[Mutant]] = &[BASE, TOOLS, UTILITIES];

static BASE: &[Mutant] = &[
    Mutant {
        id: "mcp-stdio-log-line",
        requirement: "basic/transports: stdout carries nothing but MCP messages",
        wrong: "A log line stands on stdout before each list of tools.",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("tools/list") {
            true => vec![raw("[info] listing tools\n"), Frame::Json(message)],
            false => send(message),
        }),
    },
    Mutant {
        id: "mcp-stdio-pretty-printed",
        requirement: "basic/transports: messages have no newlines inside",
        wrong: "The list of tools is spread over several lines.",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("tools/list") {
            true => vec![raw(format!("{message:#}\n"))],
            false => send(message),
        }),
    },
    Mutant {
        id: "mcp-stdio-latin1",
        requirement: "basic/transports: messages are UTF-8",
        wrong: "Results carry a byte that is no UTF-8.",
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
        requirement: "basic: messages follow JSON-RPC 2.0",
        wrong: "The list of tools lacks `jsonrpc`.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/list"), |m| {
                remove(m, "/jsonrpc")
            })
        }),
    },
    Mutant {
        id: "mcp-base-id-as-text",
        requirement: "basic: a response has the id of its request",
        wrong: "Numbers as ids are answered as strings.",
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
        requirement: "basic: a response has a result or an error, not both",
        wrong: "Results come with an `error` of null.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.is_result, |m| set(m, "/error", Value::Null))
        }),
    },
    Mutant {
        id: "mcp-base-code-text",
        requirement: "basic: error codes are integers",
        wrong: "Error codes are strings.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.is_error, |m| set(m, "/error/code", "-32601"))
        }),
    },
    Mutant {
        id: "mcp-base-null-request-id",
        requirement: "basic: the id of a request is not null",
        wrong: "Questions to the client have the id null.",
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
        requirement: "basic: notifications are never answered",
        wrong: "notifications/initialized is answered.",
        tamper: Tamper::In(
            |_, message| match calls(&message, "notifications/initialized") {
                true => refuse(&message, -32601),
                false => pass(message),
            },
        ),
    },
    Mutant {
        id: "mcp-base-unknown-method",
        requirement: "basic: an unknown method is -32601",
        wrong: "An unknown method is an internal error.",
        tamper: Tamper::Out(|_, _, message| {
            let unknown = message.pointer("/error/code") == Some(&json!(-32601));
            change(message, unknown, |m| set(m, "/error/code", -32603))
        }),
    },
    Mutant {
        id: "mcp-lifecycle-echoes-version",
        requirement: "basic/lifecycle: an unknown version is answered with one the server knows",
        wrong: "Whatever version is asked for is answered.",
        tamper: Tamper::Out(|_, sent, message| {
            let asked = sent.asked.get("protocolVersion").cloned();
            change(message, sent.answers("initialize"), |m| {
                set(m, "/result/protocolVersion", asked.unwrap_or_default());
            })
        }),
    },
    Mutant {
        id: "mcp-lifecycle-other-version",
        requirement: "basic/lifecycle: a known version is answered with itself",
        wrong: "2024-11-05 is answered to whoever asks for a version that is known.",
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
        requirement: "basic/lifecycle: the server names itself",
        wrong: "The answer to initialize has no `serverInfo`.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/serverInfo");
            })
        }),
    },
    Mutant {
        id: "mcp-lifecycle-no-capabilities",
        requirement: "basic/lifecycle: the server declares its capabilities",
        wrong: "The answer to initialize has no `capabilities`.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/capabilities");
            })
        }),
    },
    Mutant {
        id: "mcp-lifecycle-early-request",
        requirement: "basic/lifecycle: no requests before notifications/initialized",
        wrong: "The client's roots are asked for before it says that it is ready.",
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
        requirement: "server/tools: a server with tools declares `tools`",
        wrong: "There are tools, but no capability says so.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/capabilities/tools");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-no-schema",
        requirement: "server/tools: every tool has an inputSchema",
        wrong: "Tools have no `inputSchema`.",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                remove(tool, "/inputSchema")
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-list-schema",
        requirement: "server/tools: an inputSchema is an object schema",
        wrong: "The `inputSchema` of a tool describes a list.",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                set(tool, "/inputSchema", json!({ "type": "array" }));
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-same-names",
        requirement: "server/tools: names of tools are unique",
        wrong: "All tools have the same name.",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                set(tool, "/name", "start")
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-odd-names",
        requirement: "server/tools: names of tools have letters, digits, `_`, `-` and `.`",
        wrong: "Names of tools have spaces.",
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
        requirement: "server/tools: an unknown tool is an error",
        wrong: "A call of a tool that does not exist succeeds.",
        tamper: Tamper::In(|_, message| {
            let name = text(&message, "/params/name");
            let known = matches!(name, "start" | "reply");
            match calls(&message, "tools/call") && !known {
                true => answer(&message, json!({ "content": [] })),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "mcp-tools-no-content",
        requirement: "server/tools: a result has content",
        wrong: "Results have no `content`.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                remove(m, "/result/content");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-odd-content",
        requirement: "server/tools: content is text, image, audio, resource_link or resource",
        wrong: "Results are of the type `markdown`.",
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
        requirement: "server/tools: structuredContent follows the outputSchema",
        wrong: "Structured results lack a required field.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                remove(m, "/result/structuredContent/text");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-no-structure",
        requirement: "server/tools: a tool with an outputSchema gives structuredContent",
        wrong: "Results have no `structuredContent`, though the tools promise it.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                remove(m, "/result/structuredContent");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-mistake-hidden",
        requirement: "server/tools: what is wrong with the arguments is told with isError",
        wrong: "A call with bad arguments looks like a success.",
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
        requirement: "basic/utilities/ping: a ping is answered",
        wrong: "ping is never answered.",
        tamper: Tamper::In(|_, message| match calls(&message, "ping") {
            true => swallow(),
            false => pass(message),
        }),
    },
    Mutant {
        id: "mcp-ping-pong",
        requirement: "basic/utilities/ping: the answer to a ping is an empty object",
        wrong: "ping is answered with a string.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("ping"), |m| set(m, "/result", "pong"))
        }),
    },
    Mutant {
        id: "mcp-progress-stands-still",
        requirement: "basic/utilities/progress: progress increases",
        wrong: "Progress is always 1.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "notifications/progress", |m| {
                set(m, "/params/progress", 1);
            })
        }),
    },
    Mutant {
        id: "mcp-progress-other-token",
        requirement: "basic/utilities/progress: progress names a token of an open request",
        wrong: "Progress names a token that nobody gave.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "notifications/progress", |m| {
                set(m, "/params/progressToken", "nobody-knows");
            })
        }),
    },
    Mutant {
        id: "mcp-progress-after-end",
        requirement: "basic/utilities/progress: progress ends with the request",
        wrong: "Progress goes on after the result.",
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
        requirement: "basic/utilities/cancellation: a cancelled request is not answered",
        wrong: "A cancelled request is answered with an error.",
        tamper: Tamper::In(|_, message| {
            if !calls(&message, "notifications/cancelled") {
                return pass(message);
            }
            let id = message.pointer("/params/requestId").cloned();
            let error = json!({ "code": -32800, "message": "cancelled" });
            let frame = json!({ "jsonrpc": "2.0", "id": id, "error": error });
            (Some(message), send(frame))
        }),
    },
    Mutant {
        id: "mcp-cancel-ignored",
        requirement: "basic/utilities/cancellation: a cancelled request stops",
        wrong: "A cancelled request goes on to its end.",
        tamper: Tamper::In(
            |_, message| match calls(&message, "notifications/cancelled") {
                true => swallow(),
                false => pass(message),
            },
        ),
    },
    Mutant {
        id: "mcp-logging-undeclared",
        requirement: "server/utilities/logging: a server that logs declares `logging`",
        wrong: "Log messages are sent, but no capability says so.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/capabilities/logging");
            })
        }),
    },
    Mutant {
        id: "mcp-logging-odd-level",
        requirement: "server/utilities/logging: levels are those of syslog",
        wrong: "Log messages have the level `verbose`.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "notifications/message", |m| {
                set(m, "/params/level", "verbose");
            })
        }),
    },
    Mutant {
        id: "mcp-logging-any-level",
        requirement: "server/utilities/logging: an unknown level is -32602",
        wrong: "A level that does not exist can be set.",
        tamper: Tamper::In(|_, message| match calls(&message, "logging/setLevel") {
            true => answer(&message, json!({})),
            false => pass(message),
        }),
    },
    Mutant {
        id: "mcp-logging-too-much",
        requirement: "server/utilities/logging: nothing below the level that was set",
        wrong: "Log messages below the level are sent.",
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
        requirement: "client/elicitation: only for clients that declare it",
        wrong: "Questions are sent to clients that do not take them.",
        tamper: Tamper::In(|_, message| {
            let start = calls(&message, "initialize");
            alter(message, start, |m| {
                set(m, "/params/capabilities/elicitation", json!({}));
            })
        }),
    },
    Mutant {
        id: "mcp-elicitation-nested",
        requirement: "client/elicitation: a form has primitive fields only",
        wrong: "A form has a field that is an object.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/create", |m| {
                let field = json!({ "type": "object", "properties": {} });
                set(m, "/params/requestedSchema/properties/more", field);
            })
        }),
    },
    Mutant {
        id: "mcp-elicitation-no-message",
        requirement: "client/elicitation: a question has a message",
        wrong: "Questions have no `message`.",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/create", |m| {
                remove(m, "/params/message");
            })
        }),
    },
];
