//! Defects of what an agent does with permissions, tools and the answers of its model.

use std::path::Path;

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame, MessageSummary, TamperContext};

/// The scenario whose agent asks a model.
pub(super) const MODEL: &str = "model";
/// The file that the prompts of the mock model write.
const NOTES: &str = "certify-notes.txt";

/// Remembers the directory of each session, and the one of the latest permission request.
fn note_directories(context: &mut TamperContext, summary: &MessageSummary, message: &Value) {
    if summary.answers("session/new") {
        let cwd = summary.request_params.get("cwd").cloned();
        let known = context.notes.entry("directories").or_insert(json!({}));
        if let Some(known) = known.as_object_mut() {
            let session = text(message, "/result/sessionId").to_owned();
            known.insert(session, cwd.unwrap_or_default());
        }
    }
    if summary.method == "session/request_permission" {
        let known = context.notes.get("directories");
        let directory = known.and_then(|known| known.get(text(message, "/params/sessionId")));
        let directory = directory.cloned().unwrap_or_default();
        context.notes.insert("directory", directory);
    }
}

/// Writes the file of the tool call in the directory of the latest permission request.
fn write_notes(context: &TamperContext) {
    let directory = context.notes.get("directory").and_then(Value::as_str);
    if let Some(directory) = directory {
        let _ = std::fs::write(Path::new(directory).join(NOTES), "certified\n");
    }
}

/// A mutant that writes the file of a tool call when the client answers its permission request in
/// a certain way.
fn runs_anyway(
    id: &'static str,
    when: impl Fn(&TamperContext, &Value) -> bool + Send + Sync + 'static,
) -> AgentMutant {
    mutant(id, "PE-05")
        .scenario(MODEL)
        .tamper_out(|context, summary, message| {
            note_directories(context, summary, &message);
            if summary.update == "tool_call" {
                let kind = message.pointer("/params/update/kind").cloned();
                context.notes.insert("kind", kind.unwrap_or_default());
            }
            send(message)
        })
        .tamper_in(move |context, message| {
            if when(context, &message) {
                write_notes(context);
            }
            pass(message)
        })
}

fn rejects_option(message: &Value) -> bool {
    text(message, "/result/outcome/optionId").starts_with("reject")
}

/// Keeps only the parts of a prompt that are text.
fn drop_media(message: &mut Value) {
    each(message, "/messages", |message| {
        if let Some(Value::Array(parts)) = message.get_mut("content") {
            parts.retain(|part| text(part, "/type") == "text");
        }
    });
}

fn is_mcp(tool: &Value) -> bool {
    text(tool, "/function/name").starts_with("mcp__")
}

pub fn mutants() -> Vec<AgentMutant> {
    let mut all = permissions();
    all.extend(model());
    all
}

fn permissions() -> Vec<AgentMutant> {
    vec![
        mutant("acp-pe-05-before-the-answer", "PE-05")
            .describe("A tool runs while its permission request is open.")
            .scenario(MODEL)
            .tamper_out(|context, summary, message| {
                note_directories(context, summary, &message);
                if summary.method == "session/request_permission" {
                    write_notes(context);
                }
                send(message)
            }),
        runs_anyway("acp-pe-05-runs-rejected", |_, message| {
            rejects_option(message)
        })
        .describe("A tool that the user rejects runs anyway, and is reported as failed."),
        runs_anyway("acp-pe-05-edits-rejected", |context, message| {
            rejects_option(message) && context.notes.get("kind") == Some(&json!("edit"))
        })
        .describe("An edit that the user rejects is made anyway. Rejected commands do not run."),
        runs_anyway("acp-pe-05-runs-cancelled", |_, message| {
            text(message, "/result/outcome/outcome") == "cancelled"
        })
        .describe("A tool runs although its permission request was canceled."),
        mutant("acp-pe-06-unknown-option", "PE-06")
            .describe("The option `Always allow` is offered but treated as a rejection.")
            .scenario(MODEL)
            .incoming(
                is("/result/outcome/optionId", "allow-always"),
                sets("/result/outcome/optionId", "no-such-option"),
            ),
        mutant("acp-pe-07-waits", "PE-07")
            .describe("Prompts are lost while a permission request is open in another session.")
            .tamper_out(|context, summary, message| {
                if summary.method == "session/request_permission" {
                    context.notes.insert("asks", json!(true));
                }
                send(message)
            })
            .tamper_in(|context, message| {
                if message.pointer("/result/outcome").is_some() {
                    context.notes.remove("asks");
                }
                match calls(&message, "session/prompt") && context.notes.contains_key("asks") {
                    true => drop_message(),
                    false => pass(message),
                }
            }),
        mutant("acp-tc-11-failed-as-completed", "TC-11")
            .describe("A tool call that fails is reported as `completed`.")
            .outgoing(
                both(
                    updates("tool_call_update"),
                    is("/params/update/status", "failed"),
                ),
                sets("/params/update/status", "completed"),
            ),
        mutant("acp-tc-11-missing-file", "TC-11")
            .describe("The tool call that reads a missing file is reported as `completed`.")
            .scenario(MODEL)
            .outgoing(
                both(
                    updates("tool_call_update"),
                    is("/params/update/status", "failed"),
                ),
                sets("/params/update/status", "completed"),
            ),
    ]
}

fn model() -> Vec<AgentMutant> {
    vec![
        mutant("acp-se-15-not-offered", "SE-15")
            .describe("MCP servers are connected, but the model does not get their tools.")
            .scenario(MODEL)
            .model(|_, body| keeps("/tools", |tool| !is_mcp(tool))(body)),
        mutant("acp-se-15-result-lost", "SE-15")
            .describe("The model gets empty results of the tools of MCP servers.")
            .scenario(MODEL)
            .model(|_, body| {
                each(body, "/messages", |message| {
                    if text(message, "/role") == "tool"
                        && text(message, "/content").starts_with("canary")
                    {
                        set(message, "/content", "");
                    }
                });
            }),
        mutant("acp-se-16-all-or-none", "SE-16")
            .describe("If an MCP server cannot be started, none is connected.")
            .scenario(MODEL)
            .tamper_in(|_, message| {
                let servers = message.pointer("/params/mcpServers");
                let servers = servers.and_then(Value::as_array).into_iter().flatten();
                let mut programs = servers.map(|server| text(server, "/command"));
                let broken = programs.any(|program| {
                    let path = Path::new(program);
                    path.is_absolute() && !path.exists()
                });
                alter(message, broken, sets("/params/mcpServers", json!([])))
            }),
        mutant("acp-pt-22-text-only", "PT-22")
            .describe("Images and audio are advertised, but the model gets only text.")
            .scenario(MODEL)
            .model(|_, body| drop_media(body)),
        mutant("acp-pt-22-no-resource", "PT-22")
            .describe("Embedded resources are advertised, but the model does not get their text.")
            .scenario(MODEL)
            .model(|_, body| {
                each(body, "/messages", |message| {
                    if let Some(Value::Array(parts)) = message.get_mut("content") {
                        parts.retain(|part| !text(part, "/text").starts_with("file://"));
                    }
                });
            }),
        mutant("acp-pt-23-text-lost", "PT-23")
            .describe("The text after a tool call does not reach the client.")
            .scenario(MODEL)
            .tamper_out(|context, summary, message| {
                if summary.update == "tool_call" {
                    context.first("tool");
                }
                let lost = context.notes.contains_key("tool");
                match summary.update == "agent_message_chunk" && lost {
                    true => Vec::new(),
                    false => send(message),
                }
            }),
        mutant("acp-pt-21-swallows", "PT-21")
            .describe("A turn whose model request fails ends normally, without text.")
            .scenario(MODEL)
            .outgoing(both(method("session/prompt"), code(-32603)), |m| {
                remove(m, "/error");
                set(m, "/result", json!({ "stopReason": "end_turn" }));
            }),
        mutant("acp-pt-21-empty", "PT-21")
            .describe("An empty answer of the model becomes an empty turn.")
            .scenario(MODEL)
            .replace_outgoing(
                is(
                    "/params/update/content/text",
                    "The model sent an empty answer.",
                ),
                drops(),
            ),
        mutant("acp-pt-02-error-reason", "PT-02")
            .describe("A turn whose model request fails has the stop reason `error`.")
            .scenario(MODEL)
            .outgoing(both(method("session/prompt"), code(-32603)), |m| {
                remove(m, "/error");
                set(m, "/result", json!({ "stopReason": "error" }));
            }),
        mutant("acp-se-14-child-session", "SE-14")
            .describe(
                "The permission requests of a sub-agent name a session that was never opened.",
            )
            .scenario(MODEL)
            .tamper_out(|context, summary, message| {
                if text(&message, "/params/update/title") == "Task" {
                    context.first("task");
                }
                let child = summary.method == "session/request_permission"
                    && context.notes.contains_key("task");
                change(message, child, sets("/params/sessionId", "child"))
            }),
        mutant("acp-pt-11-deaf-at-first", "PT-11")
            .describe("A session/cancel before the first update of a turn is ignored.")
            .tamper_out(note_update)
            .tamper_in(ignore_early_cancel),
        mutant("acp-pt-11-deaf-to-stalls", "PT-11")
            .describe("A session/cancel before the first word of the model is ignored.")
            .scenario(MODEL)
            .tamper_out(note_update)
            .tamper_in(ignore_early_cancel),
        mutant("acp-pt-17-second-cancel", "PT-17")
            .describe("A second session/cancel for the same turn cancels the next turn.")
            .tamper_in(|context, message| {
                if calls(&message, "session/prompt") {
                    context.notes.remove("cancelled");
                    if context.notes.remove("stale").is_some() {
                        return answer(&message, json!({ "stopReason": "cancelled" }));
                    }
                }
                if calls(&message, "session/cancel") && !context.first("cancelled") {
                    context.notes.insert("stale", json!(true));
                }
                pass(message)
            }),
        mutant("acp-tr-23-dies", "TR-23")
            .describe("The process exits after it answered a request with -32602.")
            .replace_outgoing(code(-32602), |_, message| {
                vec![MessageFrame::Json(message), MessageFrame::Exit(1)]
            }),
    ]
}

/// Remembers that the turn has sent an update.
fn note_update(
    context: &mut TamperContext,
    summary: &MessageSummary,
    message: Value,
) -> MessageFrames {
    if summary.method == "session/update" {
        context.notes.insert("begun", json!(true));
    }
    send(message)
}

/// Drops a cancel that comes before the first update of a turn.
fn ignore_early_cancel(context: &mut TamperContext, message: Value) -> Received {
    if calls(&message, "session/prompt") {
        context.notes.remove("begun");
    }
    match calls(&message, "session/cancel") && !context.notes.contains_key("begun") {
        true => drop_message(),
        false => pass(message),
    }
}
