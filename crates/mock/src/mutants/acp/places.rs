//! Defects of directories, MCP servers and stored sessions.

use std::path::Path;

use serde_json::{Value, json};

use crate::faults;
use crate::mutants::AgentMutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::store::SessionStore;

fn is_relative(path: &str) -> bool {
    !Path::new(path).is_absolute()
}

/// The additional directories of an earlier session, as the mock stored them.
fn stored_directories(session: &str) -> Option<Value> {
    let saved = SessionStore::new(None).load(session)?;
    Some(saved.directories.into())
}

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-se-05-process-directory", "SE-05")
            .describe("Files are requested in the working directory of the process.")
            .outgoing(methods("fs/"), |m| {
                let name = Path::new(text(m, "/params/path")).file_name();
                let own = std::env::current_dir().unwrap_or_default();
                let path = own.join(name.unwrap_or_default());
                set(m, "/params/path", path.to_string_lossy().into_owned());
            }),
        mutant("acp-se-06-takes-relative", "SE-06")
            .describe("A session can be opened in a relative directory.")
            .tamper_in(|_, message| {
                let cwd = text(&message, "/params/cwd").to_owned();
                let unusual =
                    calls(&message, "session/new") && !cwd.is_empty() && is_relative(&cwd);
                alter(message, unusual, |m| {
                    set(m, "/params/cwd", format!("/{cwd}"))
                })
            }),
        mutant("acp-se-07-dies", "SE-07")
            .describe("A directory that does not exist makes the process exit.")
            .tamper_in(|_, message| {
                let cwd = text(&message, "/params/cwd");
                if calls(&message, "session/new") && !is_relative(cwd) && !Path::new(cwd).exists() {
                    faults::exit(1);
                }
                pass(message)
            }),
        mutant("acp-se-09-no-args", "SE-09")
            .describe("MCP servers do not get arguments that contain a space.")
            .incoming(
                any(),
                edits_each("/params/mcpServers", |server| {
                    if let Some(Value::Array(args)) = server.get_mut("args") {
                        args.retain(|arg| !arg.as_str().is_some_and(|arg| arg.contains(' ')));
                    }
                }),
            ),
        mutant("acp-se-11-no-headers", "SE-11")
            .describe("MCP servers over HTTP are called without their headers.")
            .scenario("rich")
            .incoming(
                any(),
                edits_each("/params/mcpServers", |server| {
                    if text(server, "/type") == "http" {
                        set(server, "/headers", json!([]));
                    }
                }),
            ),
        mutant("acp-se-11-not-reached", "SE-11")
            .describe("MCP servers over HTTP are advertised but rejected.")
            .scenario("rich")
            .tamper_in(|_, message| {
                let servers = message
                    .pointer("/params/mcpServers")
                    .and_then(Value::as_array);
                let mut servers = servers.into_iter().flatten();
                let http = servers.any(|server| text(server, "/type") == "http");
                match http && is_request(&message) {
                    true => reject(&message, -32602),
                    false => pass(message),
                }
            }),
        mutant("acp-se-12-refuses", "SE-12")
            .describe("An MCP server that does not exist makes session/new fail.")
            .tamper_in(|_, message| {
                let servers = message
                    .pointer("/params/mcpServers")
                    .and_then(Value::as_array);
                let mut servers = servers.into_iter().flatten();
                let missing = servers.any(|server| {
                    let command = Path::new(text(server, "/command"));
                    command.is_absolute() && !command.exists()
                });
                match calls(&message, "session/new") && missing {
                    true => reject(&message, -32603),
                    false => pass(message),
                }
            }),
        mutant("acp-se-13-last-session", "SE-13")
            .describe("Updates go to the session that was opened last.")
            .tamper_out(|context, summary, message| {
                if summary.answers("session/new") {
                    let id = message.pointer("/result/sessionId").cloned();
                    context.notes.insert("last", id.unwrap_or_default());
                }
                let last = context.notes.get("last").cloned();
                let update = summary.method == "session/update" && last.is_some();
                change(message, update, |m| {
                    set(m, "/params/sessionId", last.unwrap_or_default());
                })
            }),
        mutant("acp-ld-03-takes-unknown", "LD-03")
            .describe("A session with an unknown id can be loaded.")
            .outgoing(both(errors(), method("session/load")), |m| {
                remove(m, "/error");
                set(m, "/result", json!({}));
            }),
        mutant("acp-ld-04-dead-after-load", "LD-04")
            .describe("A loaded session accepts no prompts.")
            .tamper_in(|context, message| {
                let session = message.pointer("/params/sessionId").cloned();
                if calls(&message, "session/load") {
                    context.notes.insert("loaded", session.unwrap_or_default());
                    return pass(message);
                }
                let dead = session.is_some() && context.notes.get("loaded") == session.as_ref();
                match calls(&message, "session/prompt") && dead {
                    true => reject(&message, -32002),
                    false => pass(message),
                }
            }),
        mutant("acp-rs-02-refuses", "RS-02")
            .describe("session/resume is advertised, but every session is refused.")
            .replace_incoming(method("session/resume"), rejects(-32603)),
        mutant("acp-rs-02-forgets", "RS-02")
            .describe("A resumed session does not remember the earlier conversation.")
            .tamper_out(|context, summary, mut message| {
                let resumed =
                    summary.answers("session/new") && context.notes.contains_key("resumes");
                if resumed && let Some(old) = context.notes.remove("resumes") {
                    let fresh = message.pointer("/result/sessionId").cloned();
                    context.notes.insert("fresh", fresh.unwrap_or_default());
                    context.notes.insert("old", old);
                    remove(&mut message, "/result/sessionId");
                }
                swap(
                    &mut message,
                    context.notes.get("fresh"),
                    context.notes.get("old"),
                );
                send(message)
            })
            .tamper_in(|context, mut message| {
                swap(
                    &mut message,
                    context.notes.get("old"),
                    context.notes.get("fresh"),
                );
                let session = message.pointer("/params/sessionId").cloned();
                let resume = calls(&message, "session/resume");
                if resume && let Some(session) = session {
                    context.notes.insert("resumes", session);
                    set(&mut message, "/method", "session/new");
                    set(&mut message, "/params/mcpServers", json!([]));
                }
                pass(message)
            }),
        mutant("acp-cl-03-late-update", "CL-03")
            .describe("A closed session sends more text.")
            .replace_outgoing(answers("session/close"), then_chunk()),
        mutant("acp-ad-02-takes-relative", "AD-02")
            .describe("A relative entry of `additionalDirectories` is accepted.")
            .incoming(
                any(),
                keeps("/params/additionalDirectories", |path| {
                    !is_relative(path.as_str().unwrap_or_default())
                }),
            ),
        mutant("acp-ad-03-restores", "AD-03")
            .describe("A loaded session keeps its earlier additional directories.")
            .tamper_in(|_, message| {
                let without = message.pointer("/params/additionalDirectories").is_none();
                let held_message = stored_directories(text(&message, "/params/sessionId"));
                let load = calls(&message, "session/load") && without && held_message.is_some();
                alter(message, load, |m| {
                    set(
                        m,
                        "/params/additionalDirectories",
                        held_message.unwrap_or_default(),
                    );
                })
            }),
    ]
}

/// Replaces one session id with another.
fn swap(message: &mut Value, from: Option<&Value>, to: Option<&Value>) {
    if let (Some(from), Some(to)) = (from, to)
        && message.pointer("/params/sessionId") == Some(from)
    {
        set(message, "/params/sessionId", to.clone());
    }
}
