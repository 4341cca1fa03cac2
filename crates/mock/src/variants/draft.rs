//! Variants of the agent of the version 2 draft.

use serde_json::{Value, json};

use super::{AgentVariant, with_tamper};
use crate::mutants::tools::*;
use crate::mutants::{MessageFrame, Tamper};

pub fn variants() -> Vec<AgentVariant> {
    vec![
        of_draft(
            "idle-first",
            "Reports the state idle when a session is opened, before any work.",
            Tamper::outgoing(|_, summary, message| {
                if !summary.answers("session/new") {
                    return send(message);
                }
                let idle = json!({ "sessionUpdate": "state_update", "state": "idle" });
                let idle = update(text(&message, "/result/sessionId"), idle);
                vec![MessageFrame::Json(message), idle]
            }),
        ),
        of_draft(
            "own-words",
            "Uses custom values, fields, methods and capabilities in the places for them.",
            Tamper::outgoing(|_, summary, message| {
                let own = json!({ "mock.example/trace": [1, { "deep": null }] });
                if summary.answers("initialize") {
                    return change(message, true, |m| {
                        set(m, "/result/_meta", own.clone());
                        set(m, "/result/capabilities/_meta", own);
                    });
                }
                if summary.answers("session/prompt") {
                    let session = text(&summary.request_params, "/sessionId");
                    let news = json!({ "sessionUpdate": "_mock/news", "text": "none" });
                    let note = json!({
                        "jsonrpc": "2.0",
                        "method": "_mock/note",
                        "params": { "news": "none" },
                    });
                    let news = update(session, news);
                    return vec![MessageFrame::Json(message), news, MessageFrame::Json(note)];
                }
                change(message, summary.method == "session/update", |m| {
                    set(m, "/params/_meta", own);
                    if text(m, "/params/update/kind") == "search" {
                        set(m, "/params/update/kind", "_mock/lookup");
                    }
                    if text(m, "/params/update/stopReason") == "end_turn" {
                        set(m, "/params/update/stopReason", "_mock/done");
                    }
                })
            }),
        ),
        of_draft(
            "tells-settings",
            "Sends all options in an update before it answers session/set_config_option.",
            Tamper::outgoing(|_, summary, message| {
                if !summary.answers("session/set_config_option") {
                    return send(message);
                }
                let options = message.pointer("/result/configOptions").cloned();
                let options = json!({
                    "sessionUpdate": "config_option_update",
                    "configOptions": options,
                });
                let session = text(&summary.request_params, "/sessionId");
                vec![update(session, options), MessageFrame::Json(message)]
            }),
        ),
        of_draft(
            "echo-last",
            "Reports the user's message after the response and the state running.",
            Tamper::outgoing(|context, summary, message| {
                if summary.update == "user_message" && context.is_open("session/prompt") {
                    context.notes.insert("echo", message);
                    return Vec::new();
                }
                if text(&message, "/params/update/state") != "running" {
                    return send(message);
                }
                let echo = context.notes.remove("echo").map(MessageFrame::Json);
                let mut frames = send(message);
                frames.extend(echo);
                frames
            }),
        ),
    ]
}

fn of_draft(name: &'static str, description: &'static str, tamper: Tamper) -> AgentVariant {
    let mut variant = with_tamper(name, description, tamper);
    variant.data.kind = crate::AgentKind::AcpV2;
    variant
}

fn update(session: &str, update: Value) -> MessageFrame {
    let params = json!({ "sessionId": session, "update": update });
    MessageFrame::Json(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }))
}
