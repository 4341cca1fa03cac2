//! Defects of sessions that are loaded, resumed or deleted, and of requests for unknown sessions.

use serde_json::{Value, json};

use super::effects::MODEL;
use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame, TamperContext};
use crate::store::SessionStore;

/// Keeps only the instructions and the last message of the user, in requests after a load.
fn forget(context: &mut TamperContext, body: &mut Value) {
    if !context.notes.contains_key("reopened") {
        return;
    }
    if let Some(Value::Array(messages)) = body.pointer_mut("/messages") {
        let last = messages
            .iter()
            .rposition(|message| text(message, "/role") == "user");
        let mut index = 0;
        messages.retain(|message| {
            let keep = text(message, "/role") == "system" || Some(index) >= last;
            index += 1;
            keep
        });
    }
}

/// Drops updates of one kind while a session is loaded.
fn not_replayed(kind: &'static str) -> impl Fn(&mut TamperContext, &str) -> bool {
    move |context, update| update.starts_with(kind) && context.is_open("session/load")
}

fn without_replay_of(
    id: &'static str,
    requirement: &'static str,
    kind: &'static str,
) -> AgentMutant {
    let is_lost = not_replayed(kind);
    mutant(id, requirement).tamper_out(move |context, summary, message| {
        match is_lost(context, &summary.update) {
            true => Vec::new(),
            false => send(message),
        }
    })
}

pub fn mutants() -> Vec<AgentMutant> {
    let mut all = loaded();
    all.extend(others());
    all
}

fn loaded() -> Vec<AgentMutant> {
    vec![
        without_replay_of("acp-ld-05-text-only", "LD-05", "tool_call")
            .describe("The replay of a loaded session has no tool calls."),
        without_replay_of("acp-ld-06-no-plan", "LD-06", "plan")
            .describe("The replay of a loaded session has no plan."),
        mutant("acp-ld-06-first-mode", "LD-06")
            .describe("A loaded session is in its first mode, not in the last one.")
            .outgoing(
                both(
                    answers("session/load"),
                    has("/result/modes/availableModes/0"),
                ),
                |m| {
                    let first = m.pointer("/result/modes/availableModes/0/id").cloned();
                    set(m, "/result/modes/currentModeId", first.unwrap_or_default());
                },
            ),
        mutant("acp-ld-07-old-directory", "LD-07")
            .describe("A loaded session keeps its earlier directory.")
            .tamper_in(|_, message| {
                let saved = SessionStore::new(None).load(text(&message, "/params/sessionId"));
                match (calls(&message, "session/load"), saved) {
                    (true, Some(saved)) => alter(message, true, sets("/params/cwd", saved.cwd)),
                    _ => pass(message),
                }
            }),
        mutant("acp-ld-08-no-servers", "LD-08")
            .describe("The MCP servers of session/load are not started.")
            .incoming(
                method("session/load"),
                sets("/params/mcpServers", json!([])),
            ),
        mutant("acp-rs-03-no-servers", "RS-03")
            .describe("The MCP servers of session/resume are not started.")
            .incoming(
                method("session/resume"),
                sets("/params/mcpServers", json!([])),
            ),
        mutant("acp-ld-09-forgets", "LD-09")
            .describe("A loaded session is replayed, but the model gets only the new prompt.")
            .scenario(MODEL)
            .tamper_in(|context, message| {
                if calls(&message, "session/load") {
                    context.first("reopened");
                }
                pass(message)
            })
            .model(forget),
        mutant("acp-rs-02-model-forgets", "RS-02")
            .describe("After session/resume, the model gets only the new prompt.")
            .scenario(MODEL)
            .tamper_in(|context, message| {
                if calls(&message, "session/resume") {
                    context.first("reopened");
                }
                pass(message)
            })
            .model(forget),
        mutant("acp-ld-10-loses-the-turn", "LD-10")
            .describe("After session/load during a turn, session/cancel has no effect.")
            .tamper_in(|context, message| {
                if calls(&message, "session/load") && context.is_open("session/prompt") {
                    context.first("loaded");
                }
                let lost = context.notes.contains_key("loaded");
                match calls(&message, "session/cancel") && lost {
                    true => drop_message(),
                    false => pass(message),
                }
            }),
        mutant("acp-ld-04-silent", "LD-04")
            .describe("Turns in a loaded session end without text.")
            .tamper_in(|context, message| {
                if calls(&message, "session/load") {
                    context.first("reopened");
                }
                pass(message)
            })
            .tamper_out(|context, summary, message| {
                let silent =
                    context.notes.contains_key("reopened") && !context.is_open("session/load");
                match summary.update == "agent_message_chunk" && silent {
                    true => Vec::new(),
                    false => send(message),
                }
            }),
        mutant("acp-ld-01-closed-is-empty", "LD-01")
            .describe("A session that was closed in the same process is loaded without a replay.")
            .tamper_in(|context, mut message| {
                if calls(&message, "session/close") {
                    context.first("closed");
                }
                if calls(&message, "session/load") && context.notes.contains_key("closed") {
                    set(&mut message, "/method", "session/resume");
                }
                pass(message)
            }),
        mutant("acp-rs-01-closed-is-replayed", "RS-01")
            .describe("A session that was closed in the same process is replayed by resume.")
            .tamper_in(|context, mut message| {
                if calls(&message, "session/close") {
                    context.first("closed");
                }
                if calls(&message, "session/resume") && context.notes.contains_key("closed") {
                    set(&mut message, "/method", "session/load");
                }
                pass(message)
            }),
    ]
}

fn others() -> Vec<AgentMutant> {
    vec![
        mutant("acp-se-02-reused", "SE-02")
            .describe("The id of a deleted session is used again.")
            .tamper_in(|context, message| {
                if calls(&message, "session/delete") {
                    let id = message.pointer("/params/sessionId").cloned();
                    context.notes.insert("free", id.unwrap_or_default());
                }
                pass(message)
            })
            .tamper_out(|context, summary, message| {
                let free = match summary.answers("session/new") {
                    true => context.notes.remove("free"),
                    false => None,
                };
                change(message, free.is_some(), |m| {
                    set(m, "/result/sessionId", free.unwrap_or_default());
                })
            }),
        mutant("acp-se-17-resumes-unknown", "SE-17")
            .describe("A session with an unknown id can be resumed.")
            .outgoing(both(errors(), method("session/resume")), |m| {
                remove(m, "/error");
                set(m, "/result", json!({}));
            }),
        mutant("acp-se-17-sets-unknown", "SE-17")
            .describe("The mode of an unknown session can be set.")
            .outgoing(both(code(-32002), method("session/set_mode")), |m| {
                remove(m, "/error");
                set(m, "/result", json!({}));
            }),
        mutant("acp-se-18-early-update", "SE-18")
            .describe("Text for a new session is sent before the response that names it.")
            .replace_outgoing(answers("session/new"), |_, message| {
                let session = text(&message, "/result/sessionId").to_owned();
                vec![
                    MessageFrame::Json(chunk(&session, "Welcome.")),
                    MessageFrame::Json(message),
                ]
            }),
        mutant("acp-de-03-new-session", "DE-03")
            .describe("A session without a turn cannot be deleted.")
            .tamper_in(|context, message| {
                if calls(&message, "session/prompt") {
                    context.first("prompted");
                }
                let fresh = !context.notes.contains_key("prompted");
                match calls(&message, "session/delete") && fresh {
                    true => reject(&message, -32603),
                    false => pass(message),
                }
            }),
        mutant("acp-in-16-resume-missing", "IN-16")
            .describe("`resume` is advertised, but session/resume is not implemented.")
            .replace_incoming(method("session/resume"), rejects(-32601)),
        mutant("acp-in-16-delete-missing", "IN-16")
            .describe("`delete` is advertised, but session/delete is not implemented.")
            .replace_incoming(method("session/delete"), rejects(-32601)),
        mutant("acp-in-16-authenticate-missing", "IN-16")
            .describe("Auth methods are advertised, but `authenticate` is not implemented.")
            .scenario("auth")
            .replace_incoming(method("authenticate"), rejects(-32601)),
    ]
}
