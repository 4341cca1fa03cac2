//! Modes and config options.

use serde_json::{Value, json};

use crate::mutants::tools::*;
use crate::mutants::{Mutant, Tamper};

/// The list of options in a message, wherever it stands.
fn options(message: &mut Value) -> Option<&mut Vec<Value>> {
    let places = ["/result/configOptions", "/params/update/configOptions"];
    let place = places
        .iter()
        .find(|place| message.pointer(place).is_some())?;
    message.pointer_mut(place)?.as_array_mut()
}

/// Changes every option of every list.
fn each_option(message: &mut Value, change: impl FnMut(&mut Value)) {
    options(message).into_iter().flatten().for_each(change);
}

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "acp-mo-01-unknown-current",
        requirement: "MO-01",
        wrong: "The current mode is none of those available.",
        scenario: "modes",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/new"), |m| {
                if m.pointer("/result/modes").is_some() {
                    set(m, "/result/modes/currentModeId", "nobody-knows");
                }
            })
        }),
    },
    Mutant {
        id: "acp-mo-01-same-ids",
        requirement: "MO-01",
        wrong: "All modes have the same id.",
        scenario: "modes",
        tamper: Tamper::Out(|_, _, mut message| {
            let current = text(&message, "/result/modes/currentModeId").to_owned();
            each(&mut message, "/result/modes/availableModes", |mode| {
                set(mode, "/id", current.clone());
            });
            send(message)
        }),
    },
    Mutant {
        id: "acp-mo-02-refuses",
        requirement: "MO-02",
        wrong: "A listed mode cannot be set.",
        scenario: "modes",
        tamper: Tamper::In(|_, message| match calls(&message, "session/set_mode") {
            true => refuse(&message, -32602),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-mo-03-any-mode",
        requirement: "MO-03",
        wrong: "A mode that does not exist can be set.",
        scenario: "modes",
        tamper: Tamper::In(|_, message| match calls(&message, "session/set_mode") {
            true => answer(&message, json!({})),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-mo-04-mode-id",
        requirement: "MO-04",
        wrong: "A change of mode says `modeId` for `currentModeId`.",
        scenario: "modes",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "current_mode_update", |m| {
                rename(m, "/params/update", "currentModeId", "modeId");
            })
        }),
    },
    Mutant {
        id: "acp-co-01-no-current",
        requirement: "CO-01",
        wrong: "Config options have no current value.",
        scenario: "modes",
        tamper: Tamper::Out(|_, _, mut message| {
            each_option(&mut message, |option| remove(option, "/currentValue"));
            send(message)
        }),
    },
    Mutant {
        id: "acp-co-02-unknown-current",
        requirement: "CO-02",
        wrong: "The current value of a select is none of its options.",
        scenario: "modes",
        tamper: Tamper::Out(|_, _, mut message| {
            each_option(&mut message, |option| {
                if text(option, "/type") == "select" {
                    set(option, "/currentValue", "nobody-knows");
                }
            });
            send(message)
        }),
    },
    Mutant {
        id: "acp-co-02-same-ids",
        requirement: "CO-02",
        wrong: "All config options have the same id.",
        scenario: "modes",
        tamper: Tamper::Out(|_, _, mut message| {
            each_option(&mut message, |option| set(option, "/id", "mode"));
            send(message)
        }),
    },
    Mutant {
        id: "acp-co-03-boolean-unasked",
        requirement: "CO-03",
        wrong: "Boolean options are sent to clients that do not know them.",
        scenario: "modes",
        tamper: Tamper::In(|_, message| {
            let start = calls(&message, "initialize");
            alter(message, start, |m| {
                let path = "/params/clientCapabilities/session/configOptions/boolean";
                set(m, path, json!({}));
            })
        }),
    },
    Mutant {
        id: "acp-co-04-partial",
        requirement: "CO-04",
        wrong: "A change of an option is answered with that option alone.",
        scenario: "modes",
        tamper: Tamper::Out(|_, sent, message| {
            let changed = text(&sent.asked, "/configId").to_owned();
            let answered = sent.answers("session/set_config_option");
            change(message, answered, |m| {
                if let Some(list) = options(m) {
                    list.retain(|option| text(option, "/id") == changed);
                }
            })
        }),
    },
    Mutant {
        id: "acp-co-04-not-applied",
        requirement: "CO-04",
        wrong: "A change of an option is answered with the old value.",
        scenario: "modes",
        tamper: Tamper::Out(|_, sent, message| {
            let answered = sent.answers("session/set_config_option");
            change(message, answered, |m| {
                each_option(m, |option| {
                    let first = option.pointer("/options/0/value").cloned();
                    if let Some(first) = first {
                        set(option, "/currentValue", first);
                    }
                });
            })
        }),
    },
    Mutant {
        id: "acp-co-05-any-value",
        requirement: "CO-05",
        wrong: "A value that an option does not have can be set.",
        scenario: "modes",
        tamper: Tamper::In(|_, message| {
            let set_option = calls(&message, "session/set_config_option");
            let known = ["small", "large", "ask", "act", "low", "high", "plan"];
            let value = message.pointer("/params/value");
            let odd = value
                .and_then(Value::as_str)
                .is_some_and(|value| !known.contains(&value));
            match set_option && odd {
                true => answer(&message, json!({ "configOptions": [] })),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-co-06-partial-update",
        requirement: "CO-06",
        wrong: "An update of the options carries only the first.",
        scenario: "modes",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "config_option_update", |m| {
                if let Some(list) = options(m) {
                    list.truncate(1);
                }
            })
        }),
    },
    Mutant {
        id: "acp-co-07-out-of-step",
        requirement: "CO-07",
        wrong: "The option that mirrors the mode never changes.",
        scenario: "modes",
        tamper: Tamper::Out(|_, _, mut message| {
            each_option(&mut message, |option| {
                if text(option, "/category") == "mode" {
                    let first = option.pointer("/options/0/value").cloned();
                    set(option, "/currentValue", first.unwrap_or_default());
                }
            });
            send(message)
        }),
    },
    Mutant {
        id: "acp-co-08-odd-category",
        requirement: "CO-08",
        wrong: "Config options are of a category that the protocol does not have.",
        scenario: "modes",
        tamper: Tamper::Out(|_, _, mut message| {
            each_option(&mut message, |option| set(option, "/category", "colour"));
            send(message)
        }),
    },
];
