//! Prompts that are odd, or come at an odd time; cancellations that do.

use serde_json::{Value, json};

use crate::faults;
use crate::mutants::tools::*;
use crate::mutants::{Mutant, Tamper};

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "acp-pt-06-takes-anything",
        requirement: "PT-06",
        wrong: "Images and audio are not advertised, and passed over in silence.",
        scenario: "default",
        tamper: Tamper::In(|_, mut message| {
            if let Some(Value::Array(blocks)) = message.pointer_mut("/params/prompt") {
                blocks.retain(|block| !matches!(text(block, "/type"), "image" | "audio"));
            }
            pass(message)
        }),
    },
    Mutant {
        id: "acp-pt-07-any-session",
        requirement: "PT-07",
        wrong: "A prompt for an unknown session ends well, without a word.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let unknown = message.pointer("/error/code") == Some(&json!(-32002));
            change(message, sent.method == "session/prompt" && unknown, |m| {
                remove(m, "/error");
                set(m, "/result", json!({ "stopReason": "end_turn" }));
            })
        }),
    },
    Mutant {
        id: "acp-pt-08-no-answer",
        requirement: "PT-08",
        wrong: "A prompt without blocks is never answered.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let empty = message.pointer("/params/prompt") == Some(&json!([]));
            match calls(&message, "session/prompt") && empty {
                true => swallow(),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-pt-13-finishes-first",
        requirement: "PT-13",
        wrong: "A cancelled turn does all of its work before it says that it is cancelled.",
        scenario: "default",
        tamper: Tamper::Both(
            |context, sent, message| {
                let cancelled = sent.answers("session/prompt")
                    && context.notes.remove("cancelled").as_ref() == sent.asked.get("sessionId");
                change(message, cancelled, |m| {
                    set(m, "/result/stopReason", "cancelled");
                })
            },
            |context, message| {
                if !calls(&message, "session/cancel") || !context.is_open("session/prompt") {
                    return pass(message);
                }
                let session = message.pointer("/params/sessionId").cloned();
                context
                    .notes
                    .insert("cancelled", session.unwrap_or_default());
                swallow()
            },
        ),
    },
    Mutant {
        id: "acp-pt-15-keeps-cancel",
        requirement: "PT-15",
        wrong: "A session/cancel without a turn cancels the next one.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
            let session = message.pointer("/params/sessionId").cloned();
            let session = session.unwrap_or_default();
            let busy = context.is_open("session/prompt");
            let kept = context.notes.entry("cancelled").or_insert(json!([]));
            let Value::Array(kept) = kept else {
                return pass(message);
            };
            let is_kept = kept.contains(&session);
            if calls(&message, "session/prompt") && is_kept {
                kept.retain(|kept| *kept != session);
                return answer(&message, json!({ "stopReason": "cancelled" }));
            }
            match calls(&message, "session/cancel") && !busy {
                true => {
                    kept.push(session);
                    swallow()
                }
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-pt-15-dies",
        requirement: "PT-15",
        wrong: "A session/cancel without a turn ends the process.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
            if calls(&message, "session/cancel") && !context.is_open("session/prompt") {
                faults::exit(1);
            }
            pass(message)
        }),
    },
    Mutant {
        id: "acp-pt-17-stays-cancelled",
        requirement: "PT-17",
        wrong: "After a cancelled turn every turn is cancelled.",
        scenario: "default",
        tamper: Tamper::Out(|context, sent, message| {
            if !sent.answers("session/prompt") {
                return send(message);
            }
            if text(&message, "/result/stopReason") == "cancelled" {
                context.first("cancelled");
            }
            let stays = context.notes.contains_key("cancelled");
            change(message, stays, |m| {
                set(m, "/result/stopReason", "cancelled");
            })
        }),
    },
    Mutant {
        id: "acp-pt-20-lost",
        requirement: "PT-20",
        wrong: "A second prompt during a turn is never answered.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
            match calls(&message, "session/prompt") && context.is_open("session/prompt") {
                true => swallow(),
                false => pass(message),
            }
        }),
    },
];
