//! What Open Design asks of a runtime, beyond the protocol. The ids are those of its suite.

use serde_json::{Value, json};

use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant, Tamper};

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "acp-od-19-silent",
        requirement: "OD-19",
        wrong: "session/new is never answered to clients that offer nothing.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
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
    },
    Mutant {
        id: "acp-od-19-no-servers",
        requirement: "OD-19",
        wrong: "session/new is refused where it comes with MCP servers.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            match calls(&message, "session/new") && has_servers(&message) {
                true => refuse(&message, -32603),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-od-19-waits-for-server",
        requirement: "OD-19",
        wrong: "session/new waits for ever for an MCP server that does not start.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let command = text(&message, "/params/mcpServers/0/command");
            let gone = command.ends_with("no-such-program");
            match calls(&message, "session/new") && gone {
                true => swallow(),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-od-22-not-set",
        requirement: "OD-22",
        wrong: "A listed model cannot be set.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let model = text(&message, "/params/configId") == "model";
            match calls(&message, "session/set_config_option") && model {
                true => refuse(&message, -32602),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-od-24-bare-thought",
        requirement: "OD-24",
        wrong: "The content of a thought is a string.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "agent_thought_chunk", |m| {
                let words = text(m, "/params/update/content/text").to_owned();
                set(m, "/params/update/content", words);
            })
        }),
    },
    Mutant {
        id: "acp-od-26-only-reject",
        requirement: "OD-26",
        wrong: "A permission request has no option that allows.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, mut message| {
            if sent.method == "session/request_permission"
                && let Some(Value::Array(options)) = message.pointer_mut("/params/options")
            {
                options.retain(|option| text(option, "/kind").starts_with("reject"));
            }
            send(message)
        }),
    },
    Mutant {
        id: "acp-od-29-goes-on",
        requirement: "OD-29",
        wrong: "Every turn says something more after its answer.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let late = chunk(text(&sent.asked, "/sessionId"), "and another thing");
            match sent.answers("session/prompt") {
                true => vec![Frame::Json(message), Frame::Json(late)],
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "acp-od-30-usage-text",
        requirement: "OD-30",
        wrong: "The usage of a turn is told in words.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/prompt"), |m| {
                set(m, "/result/_meta", json!({ "usage": "12 tokens" }));
            })
        }),
    },
    Mutant {
        id: "acp-od-30-no-numbers",
        requirement: "OD-30",
        wrong: "The usage of a turn has words where numbers belong.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/prompt"), |m| {
                set(m, "/result/_meta/usage/inputTokens", "twelve");
            })
        }),
    },
    Mutant {
        id: "acp-od-30-kept-back",
        requirement: "OD-30",
        wrong: "A turn tells what it uses on its way, and not in its answer.",
        scenario: "updates",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/prompt"), |m| {
                remove(m, "/result/_meta");
            })
        }),
    },
    Mutant {
        id: "acp-od-37-waits",
        requirement: "OD-37",
        wrong: "Where a permission is needed it waits for somebody at a terminal.",
        scenario: "default",
        tamper: Tamper::Out(
            |_, sent, message| match sent.method == "session/request_permission" {
                true => Vec::new(),
                false => send(message),
            },
        ),
    },
];

fn has_servers(message: &Value) -> bool {
    let servers = message.pointer("/params/mcpServers");
    let servers = servers.and_then(Value::as_array);
    servers.is_some_and(|servers| !servers.is_empty())
}
