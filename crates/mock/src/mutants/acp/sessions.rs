//! Defects of creating, loading, resuming, closing, listing and deleting sessions.

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant};

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("acp-se-01-number-id", "SE-01")
            .says("`sessionId` is a number.")
            .out(answers("session/new"), sets("/result/sessionId", 7)),
        wrong("acp-se-01-empty-id", "SE-01")
            .says("`sessionId` is empty.")
            .out(answers("session/new"), sets("/result/sessionId", "")),
        wrong("acp-se-02-same-id", "SE-02")
            .says("Every session has the id of the first one.")
            .tamper_out(|context, sent, message| {
                if !sent.answers("session/new") {
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
        wrong("acp-se-03-modes-list", "SE-03")
            .says("`modes` of a new session is a list instead of an object.")
            .out(
                answers("session/new"),
                sets("/result/modes", json!(["ask", "act"])),
            ),
        wrong("acp-se-04-own-directory", "SE-04")
            .says("It works in the working directory of the process, not in that of the session.")
            .heard(
                both(method("session/new"), begins("/params/cwd", "/")),
                |m| {
                    let own = std::env::current_dir().unwrap_or_default();
                    set(m, "/params/cwd", own.to_string_lossy().into_owned());
                },
            ),
        wrong("acp-se-08-no-servers", "SE-08")
            .says("The MCP servers of the client are not started.")
            .heard(
                has("/params/mcpServers"),
                sets("/params/mcpServers", json!([])),
            ),
        wrong("acp-se-09-no-env", "SE-09")
            .says("MCP servers do not get their environment variables.")
            .heard(
                any(),
                edits_each("/params/mcpServers", sets("/env", json!([]))),
            ),
        wrong("acp-se-10-first-server", "SE-10")
            .says("Only the first MCP server is started.")
            .heard(any(), keeps_first("/params/mcpServers")),
        wrong("acp-se-14-other-session", "SE-14")
            .says("Updates name an unknown session.")
            .out(
                method("session/update"),
                sets("/params/sessionId", "someone-else"),
            ),
        wrong("acp-ld-01-no-replay", "LD-01")
            .says("A loaded session is not replayed.")
            .heard(method("session/load"), sets("/method", "session/resume")),
        wrong("acp-ld-01-half-replay", "LD-01")
            .says("A loaded session is replayed without the messages of the user.")
            .out_as(updates("user_message_chunk"), drops()),
        wrong("acp-ld-02-answers-first", "LD-02")
            .says("session/load is answered before the replay.")
            .tamper_out(|context, sent, message| {
                if sent.method == "session/update" && context.is_open("session/load") {
                    if let Some(Value::Array(held)) = context.notes.get_mut("held") {
                        held.push(message);
                    } else {
                        context.notes.insert("held", Value::Array(vec![message]));
                    }
                    return Vec::new();
                }
                let mut frames = send(message);
                if sent.answers("session/load")
                    && let Some(Value::Array(held)) = context.notes.remove("held")
                {
                    frames.extend(held.into_iter().map(Frame::Json));
                }
                frames
            }),
        wrong("acp-rs-01-replays", "RS-01")
            .says("A resumed session is replayed.")
            .heard(method("session/resume"), |m| {
                set(m, "/method", "session/load");
                set(m, "/params/mcpServers", json!([]));
            }),
        wrong("acp-cl-01-turn-goes-on", "CL-01")
            .says("The turn of a closed session continues.")
            .heard_as(method("session/close"), replies(json!({}))),
        wrong("acp-cl-02-null", "CL-02")
            .says("session/close is answered with null.")
            .out(answers("session/close"), sets("/result", Value::Null)),
        wrong("acp-li-01-bare-list", "LI-01")
            .says("session/list is answered with a list instead of an object.")
            .out(answers("session/list"), |m| {
                let list = m.pointer("/result/sessions").cloned();
                set(m, "/result", list.unwrap_or_default());
            }),
        wrong("acp-li-02-relative", "LI-02")
            .says("The directories of listed sessions are relative.")
            .out(
                answers("session/list"),
                edits_each("/result/sessions", sets("/cwd", ".")),
            ),
        wrong("acp-li-03-null", "LI-03")
            .says("An empty list of sessions is null.")
            .out(
                both(answers("session/list"), is("/result/sessions", json!([]))),
                sets("/result/sessions", Value::Null),
            ),
        wrong("acp-li-04-no-filter", "LI-04")
            .says("Sessions of other directories are also listed.")
            .heard(method("session/list"), removes("/params/cwd")),
        wrong("acp-li-05-any-cursor", "LI-05")
            .says("An unknown cursor returns the first page.")
            .heard(
                both(
                    method("session/list"),
                    not(begins("/params/cursor", "from-")),
                ),
                removes("/params/cursor"),
            ),
        wrong("acp-li-06-same-page", "LI-06")
            .says("Every page of the list is the first one and has a next cursor.")
            .scenario("rich")
            .heard(
                both(method("session/list"), begins("/params/cursor", "from-")),
                removes("/params/cursor"),
            ),
        wrong("acp-li-07-seconds", "LI-07")
            .says("`updatedAt` is a number of seconds.")
            .out(
                answers("session/list"),
                edits_each("/result/sessions", sets("/updatedAt", "1700000000")),
            ),
        wrong("acp-de-01-still-there", "DE-01")
            .says("A deleted session is still listed.")
            .heard_as(method("session/delete"), replies(json!({}))),
        wrong("acp-de-02-once", "DE-02")
            .says("Deleting a session twice is an error.")
            .tamper_in(|context, message| {
                if !calls(&message, "session/delete") {
                    return pass(message);
                }
                let id = message.pointer("/params/sessionId").cloned();
                let gone = context.notes.insert("gone", id.clone().unwrap_or_default());
                match gone.is_some() && gone == id {
                    true => refuse(&message, -32002),
                    false => pass(message),
                }
            }),
        wrong("acp-ad-01-refuses", "AD-01")
            .says("`additionalDirectories` is advertised but rejected.")
            .heard_as(
                both(has("/params/additionalDirectories"), requests()),
                refuses(-32602),
            ),
    ]
}
