//! Defects of prompts and cancellation.

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageSummary};

fn has_block(kind: &'static str) -> impl MessageMatcher {
    both(
        method("session/prompt"),
        move |_: &MessageSummary, message: &Value| {
            let blocks = message.pointer("/params/prompt").and_then(Value::as_array);
            let mut blocks = blocks.into_iter().flatten();
            blocks.any(|block| text(block, "/type") == kind)
        },
    )
}

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-pt-01-no-reason", "PT-01")
            .describe("A turn ends without a `stopReason`.")
            .outgoing(answers("session/prompt"), removes("/result/stopReason")),
        mutant("acp-pt-02-odd-reason", "PT-02")
            .describe("A turn ends with the stop reason `done`.")
            .outgoing(
                both(
                    answers("session/prompt"),
                    is("/result/stopReason", "end_turn"),
                ),
                sets("/result/stopReason", "done"),
            ),
        mutant("acp-pt-03-refuses-text", "PT-03")
            .describe("A prompt with more than one text block is rejected.")
            .tamper_in(|_, message| {
                let blocks = message.pointer("/params/prompt").and_then(Value::as_array);
                let texts = blocks.into_iter().flatten();
                let texts = texts.filter(|block| text(block, "/type") == "text").count();
                match calls(&message, "session/prompt") && texts > 1 {
                    true => reject(&message, -32602),
                    false => pass(message),
                }
            }),
        mutant("acp-pt-04-refuses-links", "PT-04")
            .describe("A prompt with a resource link is rejected.")
            .replace_incoming(has_block("resource_link"), rejects(-32602)),
        mutant("acp-pt-05-refuses-resources", "PT-05")
            .describe("Embedded resources are advertised but rejected.")
            .replace_incoming(has_block("resource"), rejects(-32602)),
        mutant("acp-pt-09-says-nothing", "PT-09")
            .describe("The text of a turn is never sent.")
            .replace_outgoing(updates("agent_message_chunk"), drops()),
        mutant("acp-pt-10-late-update", "PT-10")
            .describe("A canceled turn sends more text after its response.")
            .replace_outgoing(
                both(
                    answers("session/prompt"),
                    is("/result/stopReason", "cancelled"),
                ),
                then_chunk(),
            ),
        mutant("acp-pt-11-end-turn", "PT-11")
            .describe("A canceled turn ends with `end_turn`.")
            .outgoing(
                is("/result/stopReason", "cancelled"),
                sets("/result/stopReason", "end_turn"),
            ),
        mutant("acp-pt-11-ignored", "PT-11")
            .describe("session/cancel has no effect.")
            .replace_incoming(method("session/cancel"), ignores()),
        mutant("acp-pt-12-cancel-is-error", "PT-12")
            .describe("A canceled turn ends with an error.")
            .outgoing(is("/result/stopReason", "cancelled"), |m| {
                remove(m, "/result");
                set(m, "/error", json!({ "code": -32603, "message": "aborted" }));
            }),
        mutant("acp-pt-14-goes-on", "PT-14")
            .describe(
                "A turn that is canceled during a permission request continues as if the \
                 permission was rejected.",
            )
            .tamper_out(|context, summary, message| {
                if summary.method == "session/request_permission" {
                    context.notes.insert("asking", json!(true));
                }
                send(message)
            })
            .tamper_in(|context, message| {
                let asking = context.notes.contains_key("asking");
                if asking && calls(&message, "session/cancel") {
                    return drop_message();
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
        mutant("acp-pt-16-one-turn", "PT-16")
            .describe("The second prompt of a session is rejected.")
            .tamper_in(|context, message| {
                if !calls(&message, "session/prompt") {
                    return pass(message);
                }
                let id = message.pointer("/params/sessionId").cloned();
                let last = context.notes.insert("last", id.clone().unwrap_or_default());
                match last.is_some() && last == id {
                    true => reject(&message, -32603),
                    false => pass(message),
                }
            }),
        mutant("acp-pt-18-mixed-messages", "PT-18")
            .describe("The chunks of one message alternate between two ids.")
            .tamper_out(|context, summary, message| {
                if summary.update != "agent_message_chunk" {
                    return send(message);
                }
                let even = context.notes.remove("odd").is_some();
                if !even {
                    context.notes.insert("odd", json!(true));
                }
                let id = if even { "message-b" } else { "message-a" };
                change(message, true, |m| set(m, "/params/update/messageId", id))
            }),
        mutant("acp-pt-19-usage-null", "PT-19")
            .describe("`used` of a usage update is null.")
            .scenario("updates")
            .outgoing(
                updates("usage_update"),
                sets("/params/update/used", Value::Null),
            ),
        mutant("acp-pt-19-cost-without-currency", "PT-19")
            .describe("The cost in a usage update has no currency.")
            .scenario("updates")
            .outgoing(
                updates("usage_update"),
                sets("/params/update/cost", json!({ "amount": 0.1 })),
            ),
        mutant("acp-cr-01-no-answer", "CR-01")
            .describe("A request that is canceled with `$/cancel_request` is never answered.")
            .replace_outgoing(code(-32800), drops()),
        mutant("acp-cr-01-two-answers", "CR-01")
            .describe("A request that is canceled with `$/cancel_request` is answered twice.")
            .replace_outgoing(code(-32800), twice()),
        mutant("acp-cr-02-answers", "CR-02")
            .describe("`$/cancel_request` itself is answered.")
            .replace_incoming(method("$/cancel_request"), rejects(-32601)),
    ]
}
