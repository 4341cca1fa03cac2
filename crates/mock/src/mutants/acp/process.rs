//! Defects of the process and its input lines.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame};
use crate::{IGNORE_EOF_TIME, faults};

/// Maximum line length in bytes of the mutant `acp-tr-21-short-lines`.
const SHORT: usize = 64 << 10;

/// Whether more input is available on stdin.
fn is_more_ready() -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: reads the number of bytes in a pipe into `bytes`, and writes nothing else.
    let status = unsafe { libc::ioctl(0, libc::FIONREAD, &mut bytes) };
    status == 0 && bytes > 0
}

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-tr-04-latin1-log", "TR-04")
            .describe("stderr has a byte that is not valid UTF-8.")
            .tamper_out(|_, summary, message| {
                if summary.answers("session/new") {
                    let _ = std::io::stderr().write_all(b"session in caf\xe9 started\n");
                }
                send(message)
            }),
        mutant("acp-tr-14-dies-on-bad-line", "TR-14")
            .describe("A line that is not valid JSON is answered, but then the process exits.")
            .replace_outgoing(code(-32700), |_, message| {
                vec![MessageFrame::Json(message), MessageFrame::Exit(1)]
            }),
        mutant("acp-tr-16-one-at-a-time", "TR-16")
            .describe(
                "A session/new is not answered if another message arrives before its response.",
            )
            .tamper_in(|context, message| {
                if !calls(&message, "session/new") {
                    return pass(message);
                }
                // Wait for the other message.
                std::thread::sleep(Duration::from_millis(100));
                match context.more || is_more_ready() {
                    true => drop_message(),
                    false => pass(message),
                }
            }),
        mutant("acp-tr-18-stays", "TR-18")
            .describe("The process does not exit at the end of stdin.")
            .end(|| std::thread::sleep(IGNORE_EOF_TIME)),
        mutant("acp-tr-19-exit-code", "TR-19")
            .describe("The process exits with code 1 at the end of stdin.")
            .end(|| faults::exit(1)),
        mutant("acp-tr-19-orphan", "TR-19")
            .describe("Every turn leaves a process behind.")
            .tamper_out(|_, summary, message| {
                if summary.answers("session/prompt") {
                    faults::daemon(30, false);
                }
                send(message)
            }),
        mutant("acp-tr-19-stays-with-child", "TR-19")
            .describe("Every turn leaves a process behind, and the process itself does not exit.")
            .tamper_out(|_, summary, message| {
                if summary.answers("session/prompt") {
                    faults::daemon(30, false);
                }
                send(message)
            })
            .end(|| std::thread::sleep(IGNORE_EOF_TIME)),
        mutant("acp-tr-20-crlf", "TR-20")
            .describe("A line that ends with CR LF cannot be parsed.")
            .line(|line| match line.ends_with(b"}\r\n") {
                true => Some(b"{\n".to_vec()),
                false => Some(line),
            }),
        mutant("acp-tr-20-blank-line", "TR-20")
            .describe("A blank line makes the process exit.")
            .line(|line| match line.trim_ascii().is_empty() {
                true => faults::exit(1),
                false => Some(line),
            }),
        mutant("acp-tr-21-short-lines", "TR-21")
            .describe("Lines longer than 64 KiB are ignored.")
            .line(|line| (line.len() <= SHORT).then_some(line)),
        mutant("acp-in-12-strict", "IN-12")
            .describe("An unknown client capability makes initialize fail.")
            .tamper_in(|_, message| {
                let known = ["fs", "terminal", "session", "auth", "elicitation", "_meta"];
                let capabilities = message.pointer("/params/clientCapabilities");
                let mut capabilities = capabilities
                    .and_then(|capabilities| capabilities.as_object())
                    .into_iter()
                    .flatten();
                let has_unknown = capabilities.any(|(name, _)| !known.contains(&name.as_str()));
                match calls(&message, "initialize") && has_unknown {
                    true => reject(&message, -32602),
                    false => pass(message),
                }
            }),
        mutant("acp-in-13-early-session", "IN-13")
            .describe("A session can be opened before initialize.")
            .tamper_in(|context, message| {
                if calls(&message, "initialize") {
                    context.first("started");
                }
                let early = !context.notes.contains_key("started");
                match calls(&message, "session/new") && early {
                    true => answer(&message, json!({ "sessionId": "early-bird" })),
                    false => pass(message),
                }
            }),
        mutant("acp-in-14-dies", "IN-14")
            .describe("A second initialize makes the process exit.")
            .tamper_in(|context, message| {
                if calls(&message, "initialize") && !context.first("started") {
                    faults::exit(1);
                }
                pass(message)
            }),
        mutant("acp-in-17-hidden-load", "IN-17")
            .describe("session/load works but is not advertised.")
            .outgoing(
                answers("initialize"),
                sets("/result/agentCapabilities/loadSession", false),
            ),
        mutant("acp-in-17-hidden-list", "IN-17")
            .describe("session/list is answered with null but is not advertised.")
            .tamper_out(|_, summary, message| {
                let is_list = summary.answers("session/list");
                let is_start = summary.answers("initialize");
                change(message, is_list || is_start, |m| match is_list {
                    true => set(m, "/result", Value::Null),
                    false => remove(m, "/result/agentCapabilities/sessionCapabilities/list"),
                })
            }),
        mutant("acp-au-06-no-methods", "AU-06")
            .describe("A session requires a login, but there is no auth method.")
            .scenario("auth")
            .outgoing(
                answers("initialize"),
                sets("/result/authMethods", json!([])),
            ),
        mutant("acp-au-08-any-method", "AU-08")
            .describe("A login with an unknown method succeeds.")
            .scenario("auth")
            .replace_incoming(
                both(
                    method("authenticate"),
                    not(|_, message| ["key", "shell"].contains(&text(message, "/params/methodId"))),
                ),
                replies(json!({})),
            ),
    ]
}
