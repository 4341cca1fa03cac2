//! Lines, envelopes, ids, errors.

use serde_json::{Value, json};

use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant, Tamper};

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "acp-tr-01-latin1",
        requirement: "TR-01",
        wrong: "Text chunks carry a byte that is no UTF-8.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, mut message| {
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
    },
    Mutant {
        id: "acp-tr-02-pretty-printed",
        requirement: "TR-02",
        wrong: "The answer to session/new is spread over several lines.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("session/new") {
            true => vec![raw(format!("{message:#}\n"))],
            false => send(message),
        }),
    },
    Mutant {
        id: "acp-tr-02-two-per-line",
        requirement: "TR-02",
        wrong: "Each text chunk shares its line with the next message.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.update.as_str() {
            "agent_message_chunk" => vec![raw(message.to_string())],
            _ => send(message),
        }),
    },
    Mutant {
        id: "acp-tr-03-banner",
        requirement: "TR-03",
        wrong: "A greeting stands on stdout before the first answer.",
        scenario: "default",
        tamper: Tamper::Out(|context, _, message| {
            let mut frames = Vec::new();
            if context.first("banner") {
                frames.push(raw("Welcome to the mock agent!\n"));
            }
            frames.push(Frame::Json(message));
            frames
        }),
    },
    Mutant {
        id: "acp-tr-03-log-line",
        requirement: "TR-03",
        wrong: "A log line stands on stdout before each answer to session/new.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("session/new") {
            true => vec![raw("[info] session started\n"), Frame::Json(message)],
            false => send(message),
        }),
    },
    Mutant {
        id: "acp-tr-03-bare-json",
        requirement: "TR-03",
        wrong: "A JSON line that is no JSON-RPC message stands before each answer to session/new.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("session/new") {
            true => vec![raw("{\"level\":\"info\"}\n"), Frame::Json(message)],
            false => send(message),
        }),
    },
    Mutant {
        id: "acp-tr-03-duplicate-key",
        requirement: "TR-03",
        wrong: "Results of session/new have their `id` twice, first another one.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("session/new") {
            true => {
                let text = message.to_string();
                let rest = text.strip_prefix('{').unwrap_or_default();
                vec![raw(format!("{{\"id\":\"twin\",{rest}\n"))]
            }
            false => send(message),
        }),
    },
    Mutant {
        id: "acp-tr-05-no-jsonrpc",
        requirement: "TR-05",
        wrong: "Session updates lack `jsonrpc`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "session/update", |m| {
                remove(m, "/jsonrpc");
            })
        }),
    },
    Mutant {
        id: "acp-tr-05-old-version",
        requirement: "TR-05",
        wrong: "The answer to session/new says `jsonrpc` \"1.0\".",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/new"), |m| {
                set(m, "/jsonrpc", "1.0");
            })
        }),
    },
    Mutant {
        id: "acp-tr-06-result-and-error",
        requirement: "TR-06",
        wrong: "Results come with an `error` of null.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.is_result, |m| set(m, "/error", Value::Null))
        }),
    },
    Mutant {
        id: "acp-tr-06-neither",
        requirement: "TR-06",
        wrong: "The answer to session/list has neither result nor error.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/list"), |m| {
                remove(m, "/result");
            })
        }),
    },
    Mutant {
        id: "acp-tr-07-error-text",
        requirement: "TR-07",
        wrong: "Errors are plain strings.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.is_error, |m| set(m, "/error", "failed"))
        }),
    },
    Mutant {
        id: "acp-tr-07-code-text",
        requirement: "TR-07",
        wrong: "Error codes are strings.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.is_error, |m| {
                let code = m.pointer("/error/code").map(Value::to_string);
                set(m, "/error/code", code.unwrap_or_default());
            })
        }),
    },
    Mutant {
        id: "acp-tr-07-no-message",
        requirement: "TR-07",
        wrong: "Errors have no `message`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.is_error, |m| remove(m, "/error/message"))
        }),
    },
    Mutant {
        id: "acp-tr-08-number-as-text",
        requirement: "TR-08",
        wrong: "A request with a number as id is answered with a string.",
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
        id: "acp-tr-08-text-lost",
        requirement: "TR-08",
        wrong: "A request with a string as id is answered with null.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let textual = message.get("id").is_some_and(Value::is_string);
            let answered = sent.is_result || sent.is_error;
            change(message, answered && textual, |m| set(m, "/id", Value::Null))
        }),
    },
    Mutant {
        id: "acp-tr-08-zero-lost",
        requirement: "TR-08",
        wrong: "A request with the id 0 is answered with null.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let zero = message.get("id") == Some(&json!(0));
            change(message, zero, |m| set(m, "/id", Value::Null))
        }),
    },
    Mutant {
        id: "acp-tr-09-two-answers",
        requirement: "TR-09",
        wrong: "session/new is answered twice.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("session/new") {
            true => vec![Frame::Json(message.clone()), Frame::Json(message)],
            false => send(message),
        }),
    },
    Mutant {
        id: "acp-tr-09-no-answer",
        requirement: "TR-09",
        wrong: "session/list is never answered.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "session/list") {
            true => swallow(),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-tr-10-answers-notification",
        requirement: "TR-10",
        wrong: "A notification that it does not know is answered with an error.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let known = ["session/cancel", "$/cancel_request"];
            let notification = message.get("method").is_some() && message.get("id").is_none();
            let unknown = !known.iter().any(|method| calls(&message, method));
            match notification && unknown && message.get("jsonrpc").is_some() {
                true => refuse(&message, -32601),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-tr-11-internal-error",
        requirement: "TR-11",
        wrong: "An unknown method is an internal error.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let unknown = message.pointer("/error/code") == Some(&json!(-32601));
            change(message, unknown, |m| set(m, "/error/code", -32603))
        }),
    },
    Mutant {
        id: "acp-tr-12-internal-error",
        requirement: "TR-12",
        wrong: "Bad parameters are an internal error.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let bad = message.pointer("/error/code") == Some(&json!(-32602));
            change(message, bad, |m| set(m, "/error/code", -32603))
        }),
    },
    Mutant {
        id: "acp-tr-13-silent",
        requirement: "TR-13",
        wrong: "A line that is no JSON gets no answer.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            match message.pointer("/error/code") == Some(&json!(-32700)) {
                true => Vec::new(),
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "acp-tr-15-takes-anything",
        requirement: "TR-15",
        wrong: "A request without `jsonrpc` is answered as if it had one.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let bare = is_request(&message) && message.get("jsonrpc").is_none();
            alter(message, bare, |m| set(m, "/jsonrpc", "2.0"))
        }),
    },
    Mutant {
        id: "acp-tr-17-same-request-id",
        requirement: "TR-17",
        wrong: "Every request to the client has the id 1, even while another one is open.",
        scenario: "default",
        tamper: Tamper::Both(
            |context, _, message| {
                let request = is_request(&message);
                if request && let Some(id) = message.get("id") {
                    context.notes.insert("last", id.clone());
                }
                change(message, request, |m| set(m, "/id", 1))
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
        id: "acp-tr-22-snake-case",
        requirement: "TR-22",
        wrong: "Tool calls say `raw_input` for `rawInput`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "tool_call", |m| {
                rename(m, "/params/update", "rawInput", "raw_input");
            })
        }),
    },
];
