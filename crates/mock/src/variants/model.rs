//! Variants that treat permissions, loaded sessions and a model that fails in another valid way.

use serde_json::{Value, json};

use super::{AgentVariant, with_scenario, with_tamper};
use crate::mutants::tools::*;
use crate::mutants::{MessageFrame, Tamper};
use crate::store::SessionStore;

/// The scenario whose agent asks a model.
const MODEL: &str = "model";

pub fn variants() -> Vec<AgentVariant> {
    vec![
        with_scenario(
            "asks-a-model",
            MODEL,
            "Asks a model in every turn, and runs the tools that it calls.",
        ),
        with_tamper(
            "explains-failures",
            "If the model fails, the turn says so in text and ends normally.",
            Tamper::outgoing(|_, summary, mut message| {
                let code = message.pointer("/error/code").and_then(Value::as_i64);
                if summary.method != "session/prompt" || code != Some(-32603) {
                    return send(message);
                }
                let words = text(&message, "/error/message").to_owned();
                let told = chunk(text(&summary.request_params, "/sessionId"), &words);
                remove(&mut message, "/error");
                set(&mut message, "/result", json!({ "stopReason": "end_turn" }));
                vec![MessageFrame::Json(told), MessageFrame::Json(message)]
            }),
        )
        .in_scenario(MODEL),
        with_tamper(
            "asks-each-time",
            "Permission requests have no options that are remembered.",
            Tamper::outgoing(|_, summary, message| {
                let asks = summary.method == "session/request_permission";
                change(message, asks, |m| {
                    if let Some(Value::Array(options)) = m.pointer_mut("/params/options") {
                        options.retain(|option| text(option, "/kind").ends_with("_once"));
                    }
                })
            }),
        )
        .in_scenario(MODEL),
        with_tamper(
            "new-option-ids",
            "The ids of options are different in each permission request.",
            Tamper::both(
                |context, summary, message| {
                    if summary.method != "session/request_permission" {
                        return send(message);
                    }
                    let count = context.notes.get("count").and_then(Value::as_u64);
                    let count = count.unwrap_or_default() + 1;
                    context.notes.insert("count", json!(count));
                    change(message, true, |m| {
                        each(m, "/params/options", |option| {
                            let id = format!("{count}:{}", text(option, "/optionId"));
                            set(option, "/optionId", id);
                        });
                    })
                },
                |_, message| {
                    let chosen = text(&message, "/result/outcome/optionId");
                    let own = chosen.split_once(':').map(|(_, own)| own.to_owned());
                    alter(message, own.is_some(), |m| {
                        set(m, "/result/outcome/optionId", own.unwrap_or_default());
                    })
                },
            ),
        )
        .in_scenario(MODEL),
        with_tamper(
            "stays-in-place",
            "A session cannot be loaded with another directory.",
            Tamper::both(
                |_, _, message| send(message),
                |_, message| {
                    let saved = SessionStore::new(None).load(text(&message, "/params/sessionId"));
                    let moves = saved.is_some_and(|s| s.cwd != text(&message, "/params/cwd"));
                    match calls(&message, "session/load") && moves {
                        true => reject(&message, -32602),
                        false => pass(message),
                    }
                },
            ),
        ),
        with_tamper(
            "busy-sessions",
            "A session cannot be loaded while a turn runs.",
            Tamper::both(
                |_, _, message| send(message),
                |context, message| {
                    let busy = context.is_open("session/prompt");
                    match calls(&message, "session/load") && busy {
                        true => reject(&message, -32600),
                        false => pass(message),
                    }
                },
            ),
        ),
    ]
}
