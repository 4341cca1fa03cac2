//! Prompts and cancellation.

use serde_json::{Value, json};

use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant, Tamper};

fn cancelled(message: &Value) -> bool {
    text(message, "/result/stopReason") == "cancelled"
}

fn has_block(message: &Value, kind: &str) -> bool {
    let blocks = message.pointer("/params/prompt").and_then(Value::as_array);
    let mut blocks = blocks.into_iter().flatten();
    calls(message, "session/prompt") && blocks.any(|block| text(block, "/type") == kind)
}

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "acp-pt-01-no-reason",
        requirement: "PT-01",
        wrong: "A turn ends without a `stopReason`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/prompt"), |m| {
                remove(m, "/result/stopReason");
            })
        }),
    },
    Mutant {
        id: "acp-pt-02-odd-reason",
        requirement: "PT-02",
        wrong: "A turn ends with the reason `done`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let ended = text(&message, "/result/stopReason") == "end_turn";
            change(message, sent.answers("session/prompt") && ended, |m| {
                set(m, "/result/stopReason", "done");
            })
        }),
    },
    Mutant {
        id: "acp-pt-03-refuses-text",
        requirement: "PT-03",
        wrong: "A prompt with more than one text block is refused.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let blocks = message.pointer("/params/prompt").and_then(Value::as_array);
            let texts = blocks.into_iter().flatten();
            let texts = texts.filter(|block| text(block, "/type") == "text").count();
            match calls(&message, "session/prompt") && texts > 1 {
                true => refuse(&message, -32602),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-pt-04-refuses-links",
        requirement: "PT-04",
        wrong: "A prompt with a resource link is refused.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match has_block(&message, "resource_link") {
            true => refuse(&message, -32602),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-pt-05-refuses-resources",
        requirement: "PT-05",
        wrong: "Embedded resources are advertised and refused.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match has_block(&message, "resource") {
            true => refuse(&message, -32602),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-pt-09-says-nothing",
        requirement: "PT-09",
        wrong: "The words of a turn are never sent.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.update.as_str() {
            "agent_message_chunk" => Vec::new(),
            _ => send(message),
        }),
    },
    Mutant {
        id: "acp-pt-10-late-update",
        requirement: "PT-10",
        wrong: "A cancelled turn goes on talking after its answer.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let over = sent.answers("session/prompt") && cancelled(&message);
            let late = chunk(text(&sent.asked, "/sessionId"), "and another thing");
            match over {
                true => vec![Frame::Json(message), Frame::Json(late)],
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "acp-pt-11-end-turn",
        requirement: "PT-11",
        wrong: "A cancelled turn ends with `end_turn`.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let over = cancelled(&message);
            change(message, over, |m| set(m, "/result/stopReason", "end_turn"))
        }),
    },
    Mutant {
        id: "acp-pt-11-deaf",
        requirement: "PT-11",
        wrong: "session/cancel changes nothing.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "session/cancel") {
            true => swallow(),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-pt-12-cancel-is-error",
        requirement: "PT-12",
        wrong: "A cancelled turn ends with an error.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let over = cancelled(&message);
            change(message, over, |m| {
                remove(m, "/result");
                set(m, "/error", json!({ "code": -32603, "message": "aborted" }));
            })
        }),
    },
    Mutant {
        id: "acp-pt-14-goes-on",
        requirement: "PT-14",
        wrong: "A turn that is cancelled while it asks for permission goes on as if it was refused.",
        scenario: "default",
        tamper: Tamper::Both(
            |context, sent, message| {
                if sent.method == "session/request_permission" {
                    context.notes.insert("asking", json!(true));
                }
                send(message)
            },
            |context, message| {
                let asking = context.notes.contains_key("asking");
                if asking && calls(&message, "session/cancel") {
                    return swallow();
                }
                let reply = message.pointer("/result/outcome").is_some();
                if reply {
                    context.notes.remove("asking");
                }
                let dismissed = text(&message, "/result/outcome/outcome") == "cancelled";
                alter(message, reply && dismissed, |m| {
                    let outcome = json!({ "outcome": "selected", "optionId": "reject-once" });
                    set(m, "/result/outcome", outcome);
                })
            },
        ),
    },
    Mutant {
        id: "acp-pt-16-one-turn",
        requirement: "PT-16",
        wrong: "The second prompt of a session is refused.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
            if !calls(&message, "session/prompt") {
                return pass(message);
            }
            let id = message.pointer("/params/sessionId").cloned();
            let last = context.notes.insert("last", id.clone().unwrap_or_default());
            match last.is_some() && last == id {
                true => refuse(&message, -32603),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-pt-18-mixed-messages",
        requirement: "PT-18",
        wrong: "The chunks of one message carry two ids in turn.",
        scenario: "default",
        tamper: Tamper::Out(|context, sent, message| {
            if sent.update != "agent_message_chunk" {
                return send(message);
            }
            let even = context.notes.remove("odd").is_some();
            if !even {
                context.notes.insert("odd", json!(true));
            }
            let id = if even { "message-b" } else { "message-a" };
            change(message, true, |m| set(m, "/params/update/messageId", id))
        }),
    },
    Mutant {
        id: "acp-pt-19-usage-null",
        requirement: "PT-19",
        wrong: "`used` of a usage update is null.",
        scenario: "updates",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "usage_update", |m| {
                set(m, "/params/update/used", Value::Null);
            })
        }),
    },
    Mutant {
        id: "acp-pt-19-cost-without-currency",
        requirement: "PT-19",
        wrong: "The cost in a usage update has no currency.",
        scenario: "updates",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "usage_update", |m| {
                set(m, "/params/update/cost", json!({ "amount": 0.1 }));
            })
        }),
    },
    Mutant {
        id: "acp-cr-01-no-answer",
        requirement: "CR-01",
        wrong: "A request that is cancelled by `$/cancel_request` is never answered.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            match message.pointer("/error/code") == Some(&json!(-32800)) {
                true => Vec::new(),
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "acp-cr-01-two-answers",
        requirement: "CR-01",
        wrong: "A request that is cancelled by `$/cancel_request` is answered twice.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            match message.pointer("/error/code") == Some(&json!(-32800)) {
                true => vec![Frame::Json(message.clone()), Frame::Json(message)],
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "acp-cr-02-answers",
        requirement: "CR-02",
        wrong: "`$/cancel_request` itself is answered.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "$/cancel_request") {
            true => refuse(&message, -32601),
            false => pass(message),
        }),
    },
];
