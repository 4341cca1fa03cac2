//! Defects of modes and config options.

use serde_json::{Value, json};

use crate::mutants::AgentMutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

/// The list of config options in a message, in either of its two places.
fn options(message: &mut Value) -> Option<&mut Vec<Value>> {
    let places = ["/result/configOptions", "/params/update/configOptions"];
    let place = places
        .iter()
        .find(|place| message.pointer(place).is_some())?;
    message.pointer_mut(place)?.as_array_mut()
}

/// Edits every config option in a message.
fn edits_options(edit: impl MessageEdit) -> impl MessageEdit {
    move |message: &mut Value| options(message).into_iter().flatten().for_each(&edit)
}

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-mo-01-unknown-current", "MO-01")
            .describe("The current mode is not one of the available modes.")
            .scenario("modes")
            .outgoing(answers("session/new"), |m| {
                if m.pointer("/result/modes").is_some() {
                    set(m, "/result/modes/currentModeId", "nobody-knows");
                }
            }),
        mutant("acp-mo-01-same-ids", "MO-01")
            .describe("All modes have the same id.")
            .scenario("modes")
            .tamper_out(|_, _, mut message| {
                let current = text(&message, "/result/modes/currentModeId").to_owned();
                each(&mut message, "/result/modes/availableModes", |mode| {
                    set(mode, "/id", current.clone());
                });
                send(message)
            }),
        mutant("acp-mo-02-refuses", "MO-02")
            .describe("A listed mode cannot be set.")
            .scenario("modes")
            .replace_incoming(method("session/set_mode"), rejects(-32602)),
        mutant("acp-mo-03-any-mode", "MO-03")
            .describe("An unknown mode can be set.")
            .scenario("modes")
            .replace_incoming(method("session/set_mode"), replies(json!({}))),
        mutant("acp-mo-04-mode-id", "MO-04")
            .describe("A mode update has `modeId` instead of `currentModeId`.")
            .scenario("modes")
            .outgoing(
                updates("current_mode_update"),
                renames("/params/update", "currentModeId", "modeId"),
            ),
        mutant("acp-co-01-no-current", "CO-01")
            .describe("Config options have no current value.")
            .scenario("modes")
            .outgoing(any(), edits_options(removes("/currentValue"))),
        mutant("acp-co-02-unknown-current", "CO-02")
            .describe("The current value of a select is not one of its options.")
            .scenario("modes")
            .outgoing(
                any(),
                edits_options(|option| {
                    if text(option, "/type") == "select" {
                        set(option, "/currentValue", "nobody-knows");
                    }
                }),
            ),
        mutant("acp-co-02-same-ids", "CO-02")
            .describe("All config options have the same id.")
            .scenario("modes")
            .outgoing(any(), edits_options(sets("/id", "mode"))),
        mutant("acp-co-03-boolean-unasked", "CO-03")
            .describe("Boolean options are sent to clients that do not support them.")
            .scenario("modes")
            .incoming(
                method("initialize"),
                sets(
                    "/params/clientCapabilities/session/configOptions/boolean",
                    json!({}),
                ),
            ),
        mutant("acp-co-04-refused", "CO-04")
            .describe("Config options are advertised but cannot be set.")
            .replace_incoming(method("session/set_config_option"), rejects(-32602)),
        mutant("acp-co-04-partial", "CO-04")
            .describe("The response to setting an option contains only that option.")
            .scenario("modes")
            .tamper_out(|_, summary, message| {
                let changed = text(&summary.request_params, "/configId").to_owned();
                let answered = summary.answers("session/set_config_option");
                change(message, answered, |m| {
                    if let Some(list) = options(m) {
                        list.retain(|option| text(option, "/id") == changed);
                    }
                })
            }),
        mutant("acp-co-04-not-applied", "CO-04")
            .describe("The response to setting an option contains the old value.")
            .scenario("modes")
            .outgoing(
                answers("session/set_config_option"),
                edits_options(|option| {
                    let first = option.pointer("/options/0/value").cloned();
                    if let Some(first) = first {
                        set(option, "/currentValue", first);
                    }
                }),
            ),
        mutant("acp-co-05-any-value", "CO-05")
            .describe("An option can be set to an unknown value.")
            .scenario("modes")
            .replace_incoming(
                both(method("session/set_config_option"), |_, message| {
                    message
                        .pointer("/params/value")
                        .and_then(Value::as_str)
                        .is_some_and(|value| {
                            !["small", "large", "ask", "act", "low", "high", "plan"]
                                .contains(&value)
                        })
                }),
                replies(json!({ "configOptions": [] })),
            ),
        mutant("acp-co-05-keeps-unknown", "CO-05")
            .describe("An option can be set to an unknown value, which is then its current value.")
            .scenario("modes")
            .tamper_out(|context, _, message| {
                if let Some(options) = message.pointer("/result/configOptions") {
                    context.notes.insert("options", options.clone());
                }
                send(message)
            })
            .tamper_in(|context, message| {
                let is_unknown = text(&message, "/params/value") == "no-such-value"
                    && text(&message, "/params/configId") != "no-such-option";
                let mut result = json!({ "configOptions": context.notes.get("options") });
                if !calls(&message, "session/set_config_option") || !is_unknown {
                    return pass(message);
                }
                each(&mut result, "/configOptions", |option| {
                    if text(option, "/id") == text(&message, "/params/configId") {
                        set(option, "/currentValue", "no-such-value");
                    }
                });
                let options = result.pointer("/configOptions").cloned();
                context.notes.insert("options", options.unwrap_or_default());
                answer(&message, result)
            }),
        mutant("acp-co-06-partial-update", "CO-06")
            .describe("An update of the options contains only the first one.")
            .scenario("modes")
            .outgoing(updates("config_option_update"), |m| {
                if let Some(list) = options(m) {
                    list.truncate(1);
                }
            }),
        mutant("acp-co-07-out-of-step", "CO-07")
            .describe("The option that mirrors the mode never changes.")
            .scenario("modes")
            .outgoing(
                any(),
                edits_options(|option| {
                    if text(option, "/category") == "mode" {
                        let first = option.pointer("/options/0/value").cloned();
                        set(option, "/currentValue", first.unwrap_or_default());
                    }
                }),
            ),
        mutant("acp-co-08-odd-category", "CO-08")
            .describe("Config options have a category that the protocol does not define.")
            .scenario("modes")
            .outgoing(any(), edits_options(sets("/category", "color"))),
    ]
}
