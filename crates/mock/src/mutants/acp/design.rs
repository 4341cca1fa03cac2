//! Violations of what Open Design requires in addition to the protocol. The ids are those of its
//! suite.

use serde_json::{Value, json};

use crate::mutants::AgentMutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-od-19-silent", "OD-19")
            .describe("session/new is never answered if the client offers no capabilities.")
            .tamper_in(|context, message| {
                if calls(&message, "initialize") {
                    let offers = message.pointer("/params/clientCapabilities");
                    if offers.is_none_or(|offers| *offers == json!({})) {
                        context.first("bare");
                    }
                }
                let bare = context.notes.contains_key("bare");
                match calls(&message, "session/new") && bare {
                    true => drop_message(),
                    false => pass(message),
                }
            }),
        mutant("acp-od-19-no-servers", "OD-19")
            .describe("session/new with MCP servers is rejected.")
            .replace_incoming(
                both(method("session/new"), has("/params/mcpServers/0")),
                rejects(-32603),
            ),
        mutant("acp-od-19-waits-for-server", "OD-19")
            .describe("session/new waits forever for an MCP server that does not start.")
            .replace_incoming(
                both(method("session/new"), |_, message| {
                    text(message, "/params/mcpServers/0/command").ends_with("no-such-program")
                }),
                ignores(),
            ),
        mutant("acp-od-22-not-set", "OD-22")
            .describe("A listed model cannot be set.")
            .replace_incoming(
                both(
                    method("session/set_config_option"),
                    is("/params/configId", "model"),
                ),
                rejects(-32602),
            ),
        mutant("acp-od-24-bare-thought", "OD-24")
            .describe("The content of a thought is a string.")
            .outgoing(updates("agent_thought_chunk"), |m| {
                let words = text(m, "/params/update/content/text").to_owned();
                set(m, "/params/update/content", words);
            }),
        mutant("acp-od-26-only-reject", "OD-26")
            .describe("A permission request has no option that allows.")
            .tamper_out(|_, summary, mut message| {
                if summary.method == "session/request_permission"
                    && let Some(Value::Array(options)) = message.pointer_mut("/params/options")
                {
                    options.retain(|option| text(option, "/kind").starts_with("reject"));
                }
                send(message)
            }),
        mutant("acp-od-29-goes-on", "OD-29")
            .describe("Every turn sends more text after its response.")
            .replace_outgoing(answers("session/prompt"), then_chunk()),
        mutant("acp-od-30-usage-text", "OD-30")
            .describe("The usage of a turn is a string.")
            .outgoing(
                answers("session/prompt"),
                sets("/result/_meta", json!({ "usage": "12 tokens" })),
            ),
        mutant("acp-od-30-no-numbers", "OD-30")
            .describe("The usage of a turn has a string instead of a number.")
            .outgoing(
                answers("session/prompt"),
                sets("/result/_meta/usage/inputTokens", "twelve"),
            ),
        mutant("acp-od-30-kept-back", "OD-30")
            .describe("A turn reports its usage in an update but not in its response.")
            .scenario("updates")
            .outgoing(answers("session/prompt"), removes("/result/_meta")),
        mutant("acp-od-37-waits", "OD-37")
            .describe("The agent waits for terminal input instead of asking for permission.")
            .replace_outgoing(method("session/request_permission"), drops()),
    ]
}
