//! Defects of prompts and their content.

use serde_json::Value;

use crate::mutants::combine::*;
use crate::mutants::tools::{send, set};
use crate::mutants::{AgentMutant, MessageSummary};

/// Matches prompts with a content block of this type.
fn prompts_with(kind: &'static str) -> impl MessageMatcher {
    move |summary: &MessageSummary, message: &Value| {
        let blocks = message.pointer("/params/prompt").and_then(Value::as_array);
        let mut blocks = blocks.into_iter().flatten();
        let is_kind = |block: &Value| block.get("type").and_then(Value::as_str) == Some(kind);
        summary.method == "session/prompt" && blocks.any(is_kind)
    }
}

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("v2-56-one-id", "V2-56")
            .describe("Every prompt gets the same messageId.")
            .tamper_out(|_, summary, mut message| {
                if summary.answers("session/prompt") {
                    set(&mut message, "/result/messageId", "one");
                } else if summary.update == "user_message" {
                    set(&mut message, "/params/update/messageId", "one");
                }
                send(message)
            }),
        mutant("v2-57-no-links", "V2-57")
            .describe("Prompts with a resource_link are rejected.")
            .replace_incoming(prompts_with("resource_link"), rejects(-32602)),
        mutant("v2-58-no-resources", "V2-58")
            .describe("embeddedContext is advertised, but embedded resources are rejected.")
            .replace_incoming(prompts_with("resource"), rejects(-32602)),
        mutant("v2-58-no-images", "V2-58")
            .describe("Images are advertised, but rejected.")
            .scenario("rich")
            .replace_incoming(prompts_with("image"), rejects(-32602)),
        mutant("v2-59-no-meta", "V2-59")
            .describe("Prompts with `_meta` are rejected.")
            .replace_incoming(
                both(method("session/prompt"), has("/params/_meta")),
                rejects(-32602),
            ),
    ]
}
