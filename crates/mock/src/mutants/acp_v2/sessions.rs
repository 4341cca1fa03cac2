//! Defects of sessions: new, resume, list, close, delete, and their options.

use serde_json::{Value, json};

use super::{REASON, state};
use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame};

const START: &str = "/params/replayFrom/type";
const SESSIONS: &str = "/result/sessions";
const OPTIONS: &str = "/result/configOptions";

pub fn mutants() -> Vec<AgentMutant> {
    [store(), settings()].into_iter().flatten().collect()
}

fn store() -> Vec<AgentMutant> {
    vec![
        mutant("v2-43-one-id", "V2-43")
            .describe("All sessions have the same id.")
            .outgoing(answers("session/new"), sets("/result/sessionId", "one")),
        mutant("v2-44-needs-servers", "V2-44")
            .describe("session/new without mcpServers is rejected.")
            .replace_incoming(
                both(method("session/new"), lacks("/params/mcpServers")),
                rejects(-32602),
            ),
        mutant("v2-45-always-replays", "V2-45")
            .describe("session/resume replays the conversation without a request.")
            .incoming(
                both(method("session/resume"), lacks("/params/replayFrom")),
                sets(START, "start"),
            ),
        mutant("v2-46-new-ids", "V2-46")
            .describe("Replayed messages of the user have other ids.")
            .tamper_out(|context, summary, message| {
                let is_replay = context.is_open("session/resume");
                change(
                    message,
                    is_replay && summary.update == "user_message",
                    |m| {
                        set(m, "/params/update/messageId", "replayed");
                    },
                )
            }),
        mutant("v2-47-chunks-only", "V2-47")
            .describe("Replayed messages start with a chunk.")
            .tamper_out(|context, summary, message| {
                let is_replay = context.is_open("session/resume");
                match is_replay && summary.update == "agent_message" {
                    true => Vec::new(),
                    false => send(message),
                }
            }),
        mutant("v2-48-error", "V2-48")
            .describe("session/list fails if no session matches.")
            .tamper_out(|_, summary, message| {
                let is_empty = message.pointer(SESSIONS) == Some(&json!([]));
                change(message, summary.answers("session/list") && is_empty, |m| {
                    remove(m, "/result");
                    set(
                        m,
                        "/error",
                        json!({ "code": -32602, "message": "no sessions" }),
                    );
                })
            }),
        mutant("v2-49-no-filter", "V2-49")
            .describe("session/list ignores the cwd.")
            .incoming(method("session/list"), removes("/params/cwd")),
        mutant("v2-50-relative", "V2-50")
            .describe("The cwd of listed sessions is a relative path.")
            .outgoing(
                answers("session/list"),
                edits_each(SESSIONS, sets("/cwd", "work")),
            ),
        mutant("v2-51-end-turn", "V2-51")
            .describe("session/close ends the work with the stop reason end_turn.")
            .tamper_out(|context, _, message| {
                let is_closing = context.is_open("session/close");
                let is_cancelled = text(&message, REASON) == "cancelled";
                change(message, is_closing && is_cancelled, |m| {
                    set(m, REASON, "end_turn")
                })
            }),
        mutant("v2-51-silent", "V2-51")
            .describe("session/close does not report the end of the work.")
            .tamper_out(|context, _, message| {
                match context.is_open("session/close") && state(&message) == "idle" {
                    true => Vec::new(),
                    false => send(message),
                }
            }),
        mutant("v2-52-error", "V2-52")
            .describe("session/delete always fails.")
            .replace_incoming(method("session/delete"), rejects(-32603)),
        mutant("v2-52-keeps", "V2-52")
            .describe("session/delete succeeds, but the session is still listed.")
            .replace_incoming(method("session/delete"), replies(json!({}))),
        mutant("v2-53-unknown", "V2-53")
            .describe("Deleting an unknown session fails.")
            .replace_incoming(
                both(
                    method("session/delete"),
                    is("/params/sessionId", "agentproto-no-such-session"),
                ),
                rejects(-32602),
            ),
        mutant("v2-54-refuses", "V2-54")
            .describe("additionalDirectories are advertised, but rejected.")
            .replace_incoming(has("/params/additionalDirectories"), rejects(-32602)),
    ]
}

fn settings() -> Vec<AgentMutant> {
    vec![
        mutant("v2-55-part", "V2-55")
            .describe("session/set_config_option is answered with the first option only.")
            .outgoing(
                answers("session/set_config_option"),
                keeps_first(OPTIONS),
            ),
        mutant("v2-29-part", "V2-29")
            .describe("config_option_update contains only the option that has changed.")
            .tamper_out(|_, summary, message| {
                if !summary.answers("session/set_config_option") {
                    return send(message);
                }
                let changed = text(&summary.request_params, "/configId");
                let options = message.pointer(OPTIONS).and_then(Value::as_array);
                let options = options.into_iter().flatten();
                let options = options.filter(|option| text(option, "/configId") == changed);
                let options: Vec<&Value> = options.collect();
                let update = json!({
                    "jsonrpc": "2.0",
                    "method": "session/update",
                    "params": {
                        "sessionId": text(&summary.request_params, "/sessionId"),
                        "update": { "sessionUpdate": "config_option_update", "configOptions": options },
                    },
                });
                vec![MessageFrame::Json(update), MessageFrame::Json(message)]
            }),
        mutant("v2-30-odd-value", "V2-30")
            .describe("The value of a select option is not one of its options.")
            .outgoing(
                answers("session/new"),
                edits_each(OPTIONS, |option| {
                    if text(option, "/type") == "select" {
                        set(option, "/currentValue", "nowhere");
                    }
                }),
            ),
    ]
}
