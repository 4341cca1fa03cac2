//! Violations of what Open Design requires in addition to the protocol. The ids are those of its
//! suite.

use serde_json::{Value, json};

use crate::mutants::Mutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("acp-od-19-silent", "OD-19")
            .says("session/new is never answered if the client offers no capabilities.")
            .tamper_in(|context, message| {
                if calls(&message, "initialize") {
                    let offers = message.pointer("/params/clientCapabilities");
                    if offers.is_none_or(|offers| *offers == json!({})) {
                        context.first("bare");
                    }
                }
                let bare = context.notes.contains_key("bare");
                match calls(&message, "session/new") && bare {
                    true => swallow(),
                    false => pass(message),
                }
            }),
        wrong("acp-od-19-no-servers", "OD-19")
            .says("session/new with MCP servers is rejected.")
            .heard_as(
                both(method("session/new"), has("/params/mcpServers/0")),
                refuses(-32603),
            ),
        wrong("acp-od-19-waits-for-server", "OD-19")
            .says("session/new waits forever for an MCP server that does not start.")
            .heard_as(
                both(method("session/new"), |_, message| {
                    text(message, "/params/mcpServers/0/command").ends_with("no-such-program")
                }),
                ignores(),
            ),
        wrong("acp-od-22-not-set", "OD-22")
            .says("A listed model cannot be set.")
            .heard_as(
                both(
                    method("session/set_config_option"),
                    is("/params/configId", "model"),
                ),
                refuses(-32602),
            ),
        wrong("acp-od-24-bare-thought", "OD-24")
            .says("The content of a thought is a string.")
            .out(updates("agent_thought_chunk"), |m| {
                let words = text(m, "/params/update/content/text").to_owned();
                set(m, "/params/update/content", words);
            }),
        wrong("acp-od-26-only-reject", "OD-26")
            .says("A permission request has no option that allows.")
            .tamper_out(|_, sent, mut message| {
                if sent.method == "session/request_permission"
                    && let Some(Value::Array(options)) = message.pointer_mut("/params/options")
                {
                    options.retain(|option| text(option, "/kind").starts_with("reject"));
                }
                send(message)
            }),
        wrong("acp-od-29-goes-on", "OD-29")
            .says("Every turn sends more text after its response.")
            .out_as(answers("session/prompt"), then_talks()),
        wrong("acp-od-30-usage-text", "OD-30")
            .says("The usage of a turn is a string.")
            .out(
                answers("session/prompt"),
                sets("/result/_meta", json!({ "usage": "12 tokens" })),
            ),
        wrong("acp-od-30-no-numbers", "OD-30")
            .says("The usage of a turn has a string instead of a number.")
            .out(
                answers("session/prompt"),
                sets("/result/_meta/usage/inputTokens", "twelve"),
            ),
        wrong("acp-od-30-kept-back", "OD-30")
            .says("A turn reports its usage in an update but not in its response.")
            .scenario("updates")
            .out(answers("session/prompt"), removes("/result/_meta")),
        wrong("acp-od-37-waits", "OD-37")
            .says("The agent waits for terminal input instead of asking for permission.")
            .out_as(method("session/request_permission"), drops()),
    ]
}
