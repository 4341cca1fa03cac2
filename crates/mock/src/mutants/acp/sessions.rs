//! Defects of creating, loading, resuming, closing, listing and deleting sessions.

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame, MessageSummary, TamperContext};

/// Remembers the sessions that this process opens.
fn remember_session(context: &mut TamperContext, summary: &MessageSummary, message: &Value) {
    if summary.answers("session/new")
        && let Some(id) = message.pointer("/result/sessionId").cloned()
        && let Value::Array(own) = context.notes.entry("own").or_insert(json!([]))
    {
        own.push(id);
    }
}

/// Whether a message names a session that this process has opened.
fn is_own_session(context: &TamperContext, message: &Value) -> bool {
    let own = context.notes.get("own").and_then(Value::as_array);
    let id = message.pointer("/params/sessionId");
    own.is_some_and(|own| id.is_some_and(|id| own.contains(id)))
}

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-se-01-number-id", "SE-01")
            .describe("`sessionId` is a number.")
            .outgoing(answers("session/new"), sets("/result/sessionId", 7)),
        mutant("acp-se-01-empty-id", "SE-01")
            .describe("`sessionId` is empty.")
            .outgoing(answers("session/new"), sets("/result/sessionId", "")),
        mutant("acp-se-01-refuses", "SE-01")
            .describe("A valid session/new is answered with an internal error.")
            .outgoing(answers("session/new"), |m| {
                remove(m, "/result");
                set(
                    m,
                    "/error",
                    json!({ "code": -32603, "message": "undefined" }),
                );
            }),
        mutant("acp-se-02-same-id", "SE-02")
            .describe("Every session has the id of the first one.")
            .tamper_out(|context, summary, message| {
                if !summary.answers("session/new") {
                    return send(message);
                }
                let own = message.pointer("/result/sessionId").cloned();
                let first = context
                    .notes
                    .entry("first")
                    .or_insert(own.unwrap_or_default());
                let first = first.clone();
                change(message, true, |m| set(m, "/result/sessionId", first))
            }),
        mutant("acp-se-03-modes-list", "SE-03")
            .describe("`modes` of a new session is a list instead of an object.")
            .outgoing(
                answers("session/new"),
                sets("/result/modes", json!(["ask", "act"])),
            ),
        mutant("acp-se-04-own-directory", "SE-04")
            .describe(
                "It works in the working directory of the process, not in that of the session.",
            )
            .incoming(
                both(method("session/new"), starts_with("/params/cwd", "/")),
                |m| {
                    let own = std::env::current_dir().unwrap_or_default();
                    set(m, "/params/cwd", own.to_string_lossy().into_owned());
                },
            ),
        mutant("acp-se-08-no-servers", "SE-08")
            .describe("The MCP servers of the client are not started.")
            .incoming(
                has("/params/mcpServers"),
                sets("/params/mcpServers", json!([])),
            ),
        mutant("acp-se-09-no-env", "SE-09")
            .describe("MCP servers do not get their environment variables.")
            .incoming(
                any(),
                edits_each("/params/mcpServers", sets("/env", json!([]))),
            ),
        mutant("acp-se-10-first-server", "SE-10")
            .describe("Only the first MCP server is started.")
            .incoming(any(), keeps_first("/params/mcpServers")),
        mutant("acp-se-14-other-session", "SE-14")
            .describe("Updates name an unknown session.")
            .outgoing(
                method("session/update"),
                sets("/params/sessionId", "someone-else"),
            ),
        mutant("acp-ld-01-no-replay", "LD-01")
            .describe("A loaded session is not replayed.")
            .incoming(method("session/load"), sets("/method", "session/resume")),
        mutant("acp-ld-01-half-replay", "LD-01")
            .describe("A loaded session is replayed without the messages of the user.")
            .replace_outgoing(updates("user_message_chunk"), drops()),
        mutant("acp-ld-02-answers-first", "LD-02")
            .describe("session/load is answered before the replay.")
            .tamper_out(|context, summary, message| {
                if summary.method == "session/update" && context.is_open("session/load") {
                    if let Some(Value::Array(held)) = context.notes.get_mut("held") {
                        held.push(message);
                    } else {
                        context.notes.insert("held", Value::Array(vec![message]));
                    }
                    return Vec::new();
                }
                let mut frames = send(message);
                if summary.answers("session/load")
                    && let Some(Value::Array(held)) = context.notes.remove("held")
                {
                    frames.extend(held.into_iter().map(MessageFrame::Json));
                }
                frames
            }),
        mutant("acp-ld-02-answers-first-while-open", "LD-02")
            .describe(
                "session/load of a session of the same process is answered before the replay.",
            )
            .tamper_out(|context, summary, message| {
                remember_session(context, summary, &message);
                if summary.method == "session/update" && context.notes.contains_key("loading") {
                    if let Some(Value::Array(held)) = context.notes.get_mut("loading") {
                        held.push(message);
                    }
                    return Vec::new();
                }
                let mut frames = send(message);
                if summary.answers("session/load")
                    && let Some(Value::Array(held)) = context.notes.remove("loading")
                {
                    frames.extend(held.into_iter().map(MessageFrame::Json));
                }
                frames
            })
            .tamper_in(|context, message| {
                if calls(&message, "session/load") && is_own_session(context, &message) {
                    context.notes.insert("loading", json!([]));
                }
                pass(message)
            }),
        mutant("acp-rs-01-replays-while-open", "RS-01")
            .describe(
                "A resumed session of the same process is replayed. Others have nothing to replay.",
            )
            .tamper_out(|context, summary, message| {
                remember_session(context, summary, &message);
                send(message)
            })
            .tamper_in(|context, message| {
                let is_own = is_own_session(context, &message);
                alter(message, is_own, |m| {
                    if calls(m, "session/resume") {
                        set(m, "/method", "session/load");
                        set(m, "/params/mcpServers", json!([]));
                    }
                })
            }),
        mutant("acp-rs-01-replays", "RS-01")
            .describe("A resumed session is replayed.")
            .incoming(method("session/resume"), |m| {
                set(m, "/method", "session/load");
                set(m, "/params/mcpServers", json!([]));
            }),
        mutant("acp-cl-01-turn-goes-on", "CL-01")
            .describe("The turn of a closed session continues.")
            .replace_incoming(method("session/close"), replies(json!({}))),
        mutant("acp-cl-02-null", "CL-02")
            .describe("session/close is answered with null.")
            .outgoing(answers("session/close"), sets("/result", Value::Null)),
        mutant("acp-li-01-bare-list", "LI-01")
            .describe("session/list is answered with a list instead of an object.")
            .outgoing(answers("session/list"), |m| {
                let list = m.pointer("/result/sessions").cloned();
                set(m, "/result", list.unwrap_or_default());
            }),
        mutant("acp-li-01-items", "LI-01")
            .describe("The member `sessions` of a list is called `items`.")
            .outgoing(
                answers("session/list"),
                renames("/result", "sessions", "items"),
            ),
        mutant("acp-li-02-relative", "LI-02")
            .describe("The directories of listed sessions are relative.")
            .outgoing(
                answers("session/list"),
                edits_each("/result/sessions", sets("/cwd", ".")),
            ),
        mutant("acp-li-03-null", "LI-03")
            .describe("An empty list of sessions is null.")
            .outgoing(
                both(answers("session/list"), is("/result/sessions", json!([]))),
                sets("/result/sessions", Value::Null),
            ),
        mutant("acp-li-04-no-filter", "LI-04")
            .describe("Sessions of other directories are also listed.")
            .incoming(method("session/list"), removes("/params/cwd")),
        mutant("acp-li-05-any-cursor", "LI-05")
            .describe("An unknown cursor returns the first page.")
            .incoming(
                both(
                    method("session/list"),
                    not(starts_with("/params/cursor", "from-")),
                ),
                removes("/params/cursor"),
            ),
        mutant("acp-li-06-same-page", "LI-06")
            .describe("Every page of the list is the first one and has a next cursor.")
            .scenario("rich")
            .incoming(
                both(
                    method("session/list"),
                    starts_with("/params/cursor", "from-"),
                ),
                removes("/params/cursor"),
            ),
        mutant("acp-li-07-seconds", "LI-07")
            .describe("`updatedAt` is a number of seconds.")
            .outgoing(
                answers("session/list"),
                edits_each("/result/sessions", sets("/updatedAt", "1700000000")),
            ),
        mutant("acp-de-01-still-there", "DE-01")
            .describe("A deleted session is still listed.")
            .replace_incoming(method("session/delete"), replies(json!({}))),
        mutant("acp-de-02-once", "DE-02")
            .describe("Deleting a session twice is an error.")
            .tamper_in(|context, message| {
                if !calls(&message, "session/delete") {
                    return pass(message);
                }
                let id = message.pointer("/params/sessionId").cloned();
                let gone = context.notes.insert("gone", id.clone().unwrap_or_default());
                match gone.is_some() && gone == id {
                    true => reject(&message, -32002),
                    false => pass(message),
                }
            }),
        mutant("acp-ad-01-refuses", "AD-01")
            .describe("`additionalDirectories` is advertised but rejected.")
            .replace_incoming(
                both(has("/params/additionalDirectories"), requests()),
                rejects(-32602),
            ),
    ]
}
