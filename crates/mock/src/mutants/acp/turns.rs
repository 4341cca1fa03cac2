//! Defects of prompts and cancellation.

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{Mutant, Sent};

fn has_block(kind: &'static str) -> impl When {
    both(
        method("session/prompt"),
        move |_: &Sent, message: &Value| {
            let blocks = message.pointer("/params/prompt").and_then(Value::as_array);
            let mut blocks = blocks.into_iter().flatten();
            blocks.any(|block| text(block, "/type") == kind)
        },
    )
}

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("acp-pt-01-no-reason", "PT-01")
            .says("A turn ends without a `stopReason`.")
            .out(answers("session/prompt"), removes("/result/stopReason")),
        wrong("acp-pt-02-odd-reason", "PT-02")
            .says("A turn ends with the stop reason `done`.")
            .out(
                both(
                    answers("session/prompt"),
                    is("/result/stopReason", "end_turn"),
                ),
                sets("/result/stopReason", "done"),
            ),
        wrong("acp-pt-03-refuses-text", "PT-03")
            .says("A prompt with more than one text block is rejected.")
            .tamper_in(|_, message| {
                let blocks = message.pointer("/params/prompt").and_then(Value::as_array);
                let texts = blocks.into_iter().flatten();
                let texts = texts.filter(|block| text(block, "/type") == "text").count();
                match calls(&message, "session/prompt") && texts > 1 {
                    true => refuse(&message, -32602),
                    false => pass(message),
                }
            }),
        wrong("acp-pt-04-refuses-links", "PT-04")
            .says("A prompt with a resource link is rejected.")
            .heard_as(has_block("resource_link"), refuses(-32602)),
        wrong("acp-pt-05-refuses-resources", "PT-05")
            .says("Embedded resources are advertised but rejected.")
            .heard_as(has_block("resource"), refuses(-32602)),
        wrong("acp-pt-09-says-nothing", "PT-09")
            .says("The text of a turn is never sent.")
            .out_as(updates("agent_message_chunk"), drops()),
        wrong("acp-pt-10-late-update", "PT-10")
            .says("A cancelled turn sends more text after its response.")
            .out_as(
                both(
                    answers("session/prompt"),
                    is("/result/stopReason", "cancelled"),
                ),
                then_talks(),
            ),
        wrong("acp-pt-11-end-turn", "PT-11")
            .says("A cancelled turn ends with `end_turn`.")
            .out(
                is("/result/stopReason", "cancelled"),
                sets("/result/stopReason", "end_turn"),
            ),
        wrong("acp-pt-11-deaf", "PT-11")
            .says("session/cancel has no effect.")
            .heard_as(method("session/cancel"), ignores()),
        wrong("acp-pt-12-cancel-is-error", "PT-12")
            .says("A cancelled turn ends with an error.")
            .out(is("/result/stopReason", "cancelled"), |m| {
                remove(m, "/result");
                set(m, "/error", json!({ "code": -32603, "message": "aborted" }));
            }),
        wrong("acp-pt-14-goes-on", "PT-14")
            .says(
                "A turn that is cancelled during a permission request continues as if the \
                 permission was rejected.",
            )
            .tamper_out(|context, sent, message| {
                if sent.method == "session/request_permission" {
                    context.notes.insert("asking", json!(true));
                }
                send(message)
            })
            .tamper_in(|context, message| {
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
            }),
        wrong("acp-pt-16-one-turn", "PT-16")
            .says("The second prompt of a session is rejected.")
            .tamper_in(|context, message| {
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
        wrong("acp-pt-18-mixed-messages", "PT-18")
            .says("The chunks of one message alternate between two ids.")
            .tamper_out(|context, sent, message| {
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
        wrong("acp-pt-19-usage-null", "PT-19")
            .says("`used` of a usage update is null.")
            .scenario("updates")
            .out(
                updates("usage_update"),
                sets("/params/update/used", Value::Null),
            ),
        wrong("acp-pt-19-cost-without-currency", "PT-19")
            .says("The cost in a usage update has no currency.")
            .scenario("updates")
            .out(
                updates("usage_update"),
                sets("/params/update/cost", json!({ "amount": 0.1 })),
            ),
        wrong("acp-cr-01-no-answer", "CR-01")
            .says("A request that is cancelled with `$/cancel_request` is never answered.")
            .out_as(code(-32800), drops()),
        wrong("acp-cr-01-two-answers", "CR-01")
            .says("A request that is cancelled with `$/cancel_request` is answered twice.")
            .out_as(code(-32800), twice()),
        wrong("acp-cr-02-answers", "CR-02")
            .says("`$/cancel_request` itself is answered.")
            .heard_as(method("$/cancel_request"), refuses(-32601)),
    ]
}
