//! Variants that refuse or delay what the protocol does not oblige them to do.

use std::time::Duration;

use serde_json::{Value, json};

use super::{AgentVariant, with_tamper};
use crate::mutants::Tamper;
use crate::mutants::tools::*;

/// Time that a canceled turn needs to end.
const CLEAN_UP: Duration = Duration::from_millis(1200);

pub fn variants() -> Vec<AgentVariant> {
    vec![
        with_tamper(
            "cancels-slowly",
            "A canceled turn sends nothing more, and is answered after 1.2 s.",
            Tamper::outgoing(|_, _, message| {
                if text(&message, "/result/stopReason") == "cancelled" {
                    std::thread::sleep(CLEAN_UP);
                }
                send(message)
            }),
        ),
        with_tamper(
            "version-router",
            "Supports versions 1 and 2. From version 2 on, initialize needs the members of version 2.",
            Tamper::both(
                |_, summary, message| {
                    let version = summary.request_params.get("protocolVersion");
                    let is_later = version.and_then(Value::as_u64).is_some_and(|v| v > 1);
                    change(message, summary.answers("initialize") && is_later, |m| {
                        let info = json!({ "name": "mock-router", "version": "2" });
                        let result =
                            json!({ "protocolVersion": 2, "capabilities": {}, "info": info });
                        set(m, "/result", result);
                    })
                },
                |_, message| {
                    let version = message.pointer("/params/protocolVersion");
                    let is_later = version.and_then(Value::as_u64).is_some_and(|v| v > 1);
                    let has_info = message.pointer("/params/info").is_some_and(Value::is_object);
                    match calls(&message, "initialize") && is_later && !has_info {
                        true => reject(&message, -32602),
                        false => pass(message),
                    }
                },
            ),
        ),
        with_tamper(
            "login-comes-first",
            "Without a login, every session/new has the error of a missing login, also before initialize.",
            Tamper::both(
                |_, _, message| send(message),
                |context, message| {
                    if calls(&message, "initialize") {
                        context.first("started");
                    }
                    let early = !context.notes.contains_key("started");
                    match calls(&message, "session/new") && early {
                        true => reject(&message, -32000),
                        false => pass(message),
                    }
                },
            ),
        )
        .in_scenario("auth"),
        with_tamper(
            "reopens-only-closed",
            "A session that is open in this process cannot be loaded or resumed.",
            Tamper::both(
                |context, summary, message| {
                    if summary.answers("session/new") {
                        let id = message.pointer("/result/sessionId").cloned();
                        let open = context.notes.entry("open").or_insert(json!([]));
                        if let (Some(id), Value::Array(open)) = (id, open) {
                            open.push(id);
                        }
                    }
                    send(message)
                },
                |context, message| {
                    let id = message.pointer("/params/sessionId").cloned();
                    let id = id.unwrap_or_default();
                    let Some(Value::Array(open)) = context.notes.get_mut("open") else {
                        return pass(message);
                    };
                    if calls(&message, "session/close") || calls(&message, "session/delete") {
                        open.retain(|open| *open != id);
                    }
                    let reopens =
                        calls(&message, "session/load") || calls(&message, "session/resume");
                    match reopens && open.contains(&id) {
                        true => reject(&message, -32600),
                        false => pass(message),
                    }
                },
            ),
        ),
        with_tamper(
            "program-missing",
            "No session can be opened, because a program that the agent needs is not installed.",
            Tamper::outgoing(|_, summary, message| {
                // The commands of a session that was not opened.
                if summary.update == "available_commands_update" {
                    return Vec::new();
                }
                change(message, summary.answers("session/new"), |m| {
                    remove(m, "/result");
                    let why = "Could not start helper: executable not found";
                    set(m, "/error", json!({ "code": -32603, "message": why }));
                })
            }),
        ),
        with_tamper(
            "terminal-login",
            "The only login runs in a terminal, and `authenticate` is not implemented.",
            Tamper::outgoing(|_, summary, message| {
                let takes_terminal = summary.request_params.pointer("/clientCapabilities/auth/terminal");
                let offers = summary.answers("initialize") && takes_terminal == Some(&json!(true));
                change(message, offers, |m| {
                    let login = json!({ "id": "shell", "name": "Log in by hand", "type": "terminal", "args": ["login"] });
                    set(m, "/result/authMethods", json!([login]));
                })
            }),
        ),
        with_tamper(
            "plans-only",
            "A turn consists of a plan, without text.",
            Tamper::outgoing(|_, summary, message| {
                match summary.update == "agent_message_chunk" {
                    true => Vec::new(),
                    false => send(message),
                }
            }),
        )
        .in_scenario("plan"),
    ]
}
