//! Defects with unusual prompts and cancellations, or with their timing.

use serde_json::{Value, json};

use crate::faults;
use crate::mutants::Mutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("acp-pt-06-takes-anything", "PT-06")
            .says("Images and audio are not advertised, and are silently ignored.")
            .heard(
                any(),
                keeps("/params/prompt", |block| {
                    !matches!(text(block, "/type"), "image" | "audio")
                }),
            ),
        wrong("acp-pt-07-any-session", "PT-07")
            .says("A prompt for an unknown session ends normally, without any text.")
            .out(both(method("session/prompt"), code(-32002)), |m| {
                remove(m, "/error");
                set(m, "/result", json!({ "stopReason": "end_turn" }));
            }),
        wrong("acp-pt-08-no-answer", "PT-08")
            .says("An empty prompt is never answered.")
            .heard_as(
                both(method("session/prompt"), is("/params/prompt", json!([]))),
                ignores(),
            ),
        wrong("acp-pt-13-finishes-first", "PT-13")
            .says("A cancelled turn finishes all its work before it is answered.")
            .tamper_out(|context, sent, message| {
                let cancelled = sent.answers("session/prompt")
                    && context.notes.remove("cancelled").as_ref() == sent.asked.get("sessionId");
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
                swallow()
            }),
        wrong("acp-pt-15-keeps-cancel", "PT-15")
            .says("A session/cancel without a turn cancels the next one.")
            .tamper_in(|context, message| {
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
        wrong("acp-pt-15-dies", "PT-15")
            .says("A session/cancel without a turn makes the process exit.")
            .tamper_in(|context, message| {
                if calls(&message, "session/cancel") && !context.is_open("session/prompt") {
                    faults::exit(1);
                }
                pass(message)
            }),
        wrong("acp-pt-17-stays-cancelled", "PT-17")
            .says("After a cancelled turn, every turn is cancelled.")
            .tamper_out(|context, sent, message| {
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
        wrong("acp-pt-20-lost", "PT-20")
            .says("A second prompt during a turn is never answered.")
            .tamper_in(|context, message| {
                match calls(&message, "session/prompt") && context.is_open("session/prompt") {
                    true => swallow(),
                    false => pass(message),
                }
            }),
    ]
}
