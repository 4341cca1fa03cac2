//! Messages and the beginning and end of a connection.

use std::io::Write;

use serde_json::{Value, json};

use crate::DEAF_FOR;
use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant, Tamper};

pub static MUTANTS: &[Mutant] = &[
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
    Mutant {
        id: "mcp-stdio-latin1-log",
        requirement: "MCP-STDIO-04",
        wrong: "Standard error has a byte that is no UTF-8.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            if sent.answers("tools/list") {
                let _ = std::io::stderr().write_all(b"tools of the caf\xe9 listed\n");
            }
            send(message)
        }),
    },
    Mutant {
        id: "mcp-base-id-again",
        requirement: "MCP-BASE-03",
        wrong: "The client is pinged again and again, each time under the same id.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let ping = json!({ "jsonrpc": "2.0", "id": "keep-alive", "method": "ping" });
            match sent.answers("tools/list") || sent.answers("tools/call") {
                true => vec![Frame::Json(ping), Frame::Json(message)],
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "mcp-base-two-answers",
        requirement: "MCP-BASE-08",
        wrong: "tools/list is answered twice.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("tools/list") {
            true => vec![Frame::Json(message.clone()), Frame::Json(message)],
            false => send(message),
        }),
    },
    Mutant {
        id: "mcp-base-null-result",
        requirement: "MCP-BASE-09",
        wrong: "logging/setLevel is answered with null.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("logging/setLevel"), |m| {
                set(m, "/result", Value::Null);
            })
        }),
    },
    Mutant {
        id: "mcp-base-bad-line-untold",
        requirement: "MCP-BASE-11",
        wrong: "A line that is no JSON is passed over without a word.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| match has_code(&message, -32700) {
            true => Vec::new(),
            false => send(message),
        }),
    },
    Mutant {
        id: "mcp-base-no-request-taken",
        requirement: "MCP-BASE-12",
        wrong: "What is no JSON-RPC 2.0 is an internal error.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let invalid = has_code(&message, -32600);
            change(message, invalid, |m| set(m, "/error/code", -32603))
        }),
    },
    Mutant {
        id: "mcp-base-dies-on-bad-line",
        requirement: "MCP-BASE-13",
        wrong: "A line that is no JSON is answered, and ends the process.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| match has_code(&message, -32700) {
            true => vec![Frame::Json(message), Frame::Exit(1)],
            false => send(message),
        }),
    },
    Mutant {
        id: "mcp-lifecycle-no-version",
        requirement: "MCP-LIFE-01",
        wrong: "The answer to initialize has no `protocolVersion`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/protocolVersion");
            })
        }),
    },
    Mutant {
        id: "mcp-lifecycle-offers-older",
        requirement: "MCP-LIFE-07",
        wrong: "2025-06-18 is offered to whoever asks for a version that is unknown.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let agreed = message.pointer("/result/protocolVersion").cloned();
            let unknown = sent.asked.get("protocolVersion") != agreed.as_ref();
            change(message, sent.answers("initialize") && unknown, |m| {
                set(m, "/result/protocolVersion", "2025-06-18");
            })
        }),
    },
    Mutant {
        id: "mcp-lifecycle-change-undeclared",
        requirement: "MCP-LIFE-08",
        wrong: "The list of tools is said to have changed, which nothing declared.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let changed = "notifications/tools/list_changed";
            let changed = json!({ "jsonrpc": "2.0", "method": changed });
            match sent.answers("tools/list") {
                true => vec![Frame::Json(message), Frame::Json(changed)],
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "mcp-lifecycle-stays",
        requirement: "MCP-LIFE-09",
        wrong: "The end of its input changes nothing.",
        scenario: "default",
        tamper: Tamper::End(|| std::thread::sleep(DEAF_FOR)),
    },
];

fn has_code(message: &Value, code: i64) -> bool {
    message.pointer("/error/code").and_then(Value::as_i64) == Some(code)
}
