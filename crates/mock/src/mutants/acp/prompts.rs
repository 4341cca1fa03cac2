//! Defects with unusual prompts and cancellations, or with their timing.

use serde_json::{Value, json};

use crate::faults;
use crate::mutants::AgentMutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-pt-06-takes-anything", "PT-06")
            .describe("Images and audio are not advertised, and are silently ignored.")
            .incoming(
                any(),
                keeps("/params/prompt", |block| {
                    !matches!(text(block, "/type"), "image" | "audio")
                }),
            ),
        mutant("acp-pt-07-any-session", "PT-07")
            .describe("A prompt for an unknown session ends normally, without any text.")
            .outgoing(both(method("session/prompt"), code(-32002)), |m| {
                remove(m, "/error");
                set(m, "/result", json!({ "stopReason": "end_turn" }));
            }),
        mutant("acp-pt-08-no-answer", "PT-08")
            .describe("An empty prompt is never answered.")
            .replace_incoming(
                both(method("session/prompt"), is("/params/prompt", json!([]))),
                ignores(),
            ),
        mutant("acp-pt-13-finishes-first", "PT-13")
            .describe("A canceled turn finishes all its work before it is answered.")
            .tamper_out(|context, summary, message| {
                let cancelled = summary.answers("session/prompt")
                    && context.notes.remove("cancelled").as_ref()
                        == summary.request_params.get("sessionId");
                change(message, cancelled, |m| {
                    set(m, "/result/stopReason", "cancelled");
                })
            })
            .tamper_in(|context, message| {
                if !calls(&message, "session/cancel") || !context.is_open("session/prompt") {
                    return pass(message);
                }
                let session = message.pointer("/params/sessionId").cloned();
                context
                    .notes
                    .insert("cancelled", session.unwrap_or_default());
                drop_message()
            }),
        mutant("acp-pt-15-keeps-cancel", "PT-15")
            .describe("A session/cancel without a turn cancels the next one.")
            .tamper_in(|context, message| {
                let session = message.pointer("/params/sessionId").cloned();
                let session = session.unwrap_or_default();
                let busy = context.is_open("session/prompt");
                let held_message = context.notes.entry("cancelled").or_insert(json!([]));
                let Value::Array(held_message) = held_message else {
                    return pass(message);
                };
                let is_held = held_message.contains(&session);
                if calls(&message, "session/prompt") && is_held {
                    held_message.retain(|held_message| *held_message != session);
                    return answer(&message, json!({ "stopReason": "cancelled" }));
                }
                match calls(&message, "session/cancel") && !busy {
                    true => {
                        held_message.push(session);
                        drop_message()
                    }
                    false => pass(message),
                }
            }),
        mutant("acp-pt-15-dies", "PT-15")
            .describe("A session/cancel without a turn makes the process exit.")
            .tamper_in(|context, message| {
                if calls(&message, "session/cancel") && !context.is_open("session/prompt") {
                    faults::exit(1);
                }
                pass(message)
            }),
        mutant("acp-pt-17-stays-cancelled", "PT-17")
            .describe("After a canceled turn, every turn is canceled.")
            .tamper_out(|context, summary, message| {
                if !summary.answers("session/prompt") {
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
        mutant("acp-pt-20-lost", "PT-20")
            .describe("A second prompt during a turn is never answered.")
            .tamper_in(|context, message| {
                match calls(&message, "session/prompt") && context.is_open("session/prompt") {
                    true => drop_message(),
                    false => pass(message),
                }
            }),
    ]
}
