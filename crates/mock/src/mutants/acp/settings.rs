//! Defects of modes and config options.

use serde_json::{Value, json};

use crate::mutants::Mutant;
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
fn edits_options(edit: impl Edit) -> impl Edit {
    move |message: &mut Value| options(message).into_iter().flatten().for_each(&edit)
}

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("acp-mo-01-unknown-current", "MO-01")
            .says("The current mode is not one of the available modes.")
            .scenario("modes")
            .out(answers("session/new"), |m| {
                if m.pointer("/result/modes").is_some() {
                    set(m, "/result/modes/currentModeId", "nobody-knows");
                }
            }),
        wrong("acp-mo-01-same-ids", "MO-01")
            .says("All modes have the same id.")
            .scenario("modes")
            .tamper_out(|_, _, mut message| {
                let current = text(&message, "/result/modes/currentModeId").to_owned();
                each(&mut message, "/result/modes/availableModes", |mode| {
                    set(mode, "/id", current.clone());
                });
                send(message)
            }),
        wrong("acp-mo-02-refuses", "MO-02")
            .says("A listed mode cannot be set.")
            .scenario("modes")
            .heard_as(method("session/set_mode"), refuses(-32602)),
        wrong("acp-mo-03-any-mode", "MO-03")
            .says("An unknown mode can be set.")
            .scenario("modes")
            .heard_as(method("session/set_mode"), replies(json!({}))),
        wrong("acp-mo-04-mode-id", "MO-04")
            .says("A mode update has `modeId` instead of `currentModeId`.")
            .scenario("modes")
            .out(
                updates("current_mode_update"),
                renames("/params/update", "currentModeId", "modeId"),
            ),
        wrong("acp-co-01-no-current", "CO-01")
            .says("Config options have no current value.")
            .scenario("modes")
            .out(any(), edits_options(removes("/currentValue"))),
        wrong("acp-co-02-unknown-current", "CO-02")
            .says("The current value of a select is not one of its options.")
            .scenario("modes")
            .out(
                any(),
                edits_options(|option| {
                    if text(option, "/type") == "select" {
                        set(option, "/currentValue", "nobody-knows");
                    }
                }),
            ),
        wrong("acp-co-02-same-ids", "CO-02")
            .says("All config options have the same id.")
            .scenario("modes")
            .out(any(), edits_options(sets("/id", "mode"))),
        wrong("acp-co-03-boolean-unasked", "CO-03")
            .says("Boolean options are sent to clients that do not support them.")
            .scenario("modes")
            .heard(
                method("initialize"),
                sets(
                    "/params/clientCapabilities/session/configOptions/boolean",
                    json!({}),
                ),
            ),
        wrong("acp-co-04-partial", "CO-04")
            .says("The response to setting an option contains only that option.")
            .scenario("modes")
            .tamper_out(|_, sent, message| {
                let changed = text(&sent.asked, "/configId").to_owned();
                let answered = sent.answers("session/set_config_option");
                change(message, answered, |m| {
                    if let Some(list) = options(m) {
                        list.retain(|option| text(option, "/id") == changed);
                    }
                })
            }),
        wrong("acp-co-04-not-applied", "CO-04")
            .says("The response to setting an option contains the old value.")
            .scenario("modes")
            .out(
                answers("session/set_config_option"),
                edits_options(|option| {
                    let first = option.pointer("/options/0/value").cloned();
                    if let Some(first) = first {
                        set(option, "/currentValue", first);
                    }
                }),
            ),
        wrong("acp-co-05-any-value", "CO-05")
            .says("An option can be set to an unknown value.")
            .scenario("modes")
            .heard_as(
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
        wrong("acp-co-06-partial-update", "CO-06")
            .says("An update of the options contains only the first one.")
            .scenario("modes")
            .out(updates("config_option_update"), |m| {
                if let Some(list) = options(m) {
                    list.truncate(1);
                }
            }),
        wrong("acp-co-07-out-of-step", "CO-07")
            .says("The option that mirrors the mode never changes.")
            .scenario("modes")
            .out(
                any(),
                edits_options(|option| {
                    if text(option, "/category") == "mode" {
                        let first = option.pointer("/options/0/value").cloned();
                        set(option, "/currentValue", first.unwrap_or_default());
                    }
                }),
            ),
        wrong("acp-co-08-odd-category", "CO-08")
            .says("Config options have a category that the protocol does not define.")
            .scenario("modes")
            .out(any(), edits_options(sets("/category", "colour"))),
    ]
}
