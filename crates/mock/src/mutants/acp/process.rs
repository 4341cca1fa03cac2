//! The process and its lines: what happens before a message is read, and at the end.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant, Tamper};
use crate::{DEAF_FOR, faults};

/// A longer line than this is too long for `acp-tr-21-short-lines`.
const SHORT: usize = 64 << 10;

/// Whether more lies ready on stdin.
fn is_more_ready() -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: asks for the number of bytes in a pipe, and writes nothing else.
    let told = unsafe { libc::ioctl(0, libc::FIONREAD, &mut bytes) };
    told == 0 && bytes > 0
}

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "acp-tr-04-latin1-log",
        requirement: "TR-04",
        wrong: "stderr has a byte that is no UTF-8.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            if sent.answers("session/new") {
                let _ = std::io::stderr().write_all(b"session in caf\xe9 started\n");
            }
            send(message)
        }),
    },
    Mutant {
        id: "acp-tr-14-dies-on-bad-line",
        requirement: "TR-14",
        wrong: "A line that is no JSON is answered, and ends the process.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            match message.pointer("/error/code") == Some(&json!(-32700)) {
                true => vec![Frame::Json(message), Frame::Exit(1)],
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "acp-tr-16-one-at-a-time",
        requirement: "TR-16",
        wrong: "A session/new is forgotten when another message comes before its answer.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
            if !calls(&message, "session/new") {
                return pass(message);
            }
            // Time for the other one.
            std::thread::sleep(Duration::from_millis(100));
            match context.more || is_more_ready() {
                true => swallow(),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-tr-18-stays",
        requirement: "TR-18",
        wrong: "The end of stdin changes nothing.",
        scenario: "default",
        tamper: Tamper::End(|| std::thread::sleep(DEAF_FOR)),
    },
    Mutant {
        id: "acp-tr-19-exit-code",
        requirement: "TR-19",
        wrong: "The process exits with code 1 at the end of stdin.",
        scenario: "default",
        tamper: Tamper::End(|| faults::exit(1)),
    },
    Mutant {
        id: "acp-tr-19-orphan",
        requirement: "TR-19",
        wrong: "Every turn leaves a process behind.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            if sent.answers("session/prompt") {
                faults::daemon(30, false);
            }
            send(message)
        }),
    },
    Mutant {
        id: "acp-tr-20-crlf",
        requirement: "TR-20",
        wrong: "A line that ends with CR LF cannot be read.",
        scenario: "default",
        tamper: Tamper::Line(|line| match line.ends_with(b"}\r\n") {
            true => Some(b"{\n".to_vec()),
            false => Some(line),
        }),
    },
    Mutant {
        id: "acp-tr-20-blank-line",
        requirement: "TR-20",
        wrong: "A blank line ends the process.",
        scenario: "default",
        tamper: Tamper::Line(|line| match line.trim_ascii().is_empty() {
            true => faults::exit(1),
            false => Some(line),
        }),
    },
    Mutant {
        id: "acp-tr-21-short-lines",
        requirement: "TR-21",
        wrong: "Lines longer than 64 KiB are passed over.",
        scenario: "default",
        tamper: Tamper::Line(|line| (line.len() <= SHORT).then_some(line)),
    },
    Mutant {
        id: "acp-in-12-strict",
        requirement: "IN-12",
        wrong: "A client capability that it does not know makes initialize fail.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let known = ["fs", "terminal", "session", "auth", "elicitation", "_meta"];
            let said = message.pointer("/params/clientCapabilities");
            let mut said = said.and_then(|said| said.as_object()).into_iter().flatten();
            let strange = said.any(|(name, _)| !known.contains(&name.as_str()));
            match calls(&message, "initialize") && strange {
                true => refuse(&message, -32602),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-in-13-early-session",
        requirement: "IN-13",
        wrong: "A session can be opened before initialize.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
            if calls(&message, "initialize") {
                context.first("started");
            }
            let early = !context.notes.contains_key("started");
            match calls(&message, "session/new") && early {
                true => answer(&message, json!({ "sessionId": "early-bird" })),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-in-14-dies",
        requirement: "IN-14",
        wrong: "A second initialize ends the process.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
            if calls(&message, "initialize") && !context.first("started") {
                faults::exit(1);
            }
            pass(message)
        }),
    },
    Mutant {
        id: "acp-in-17-hidden-load",
        requirement: "IN-17",
        wrong: "session/load works, and is not advertised.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                set(m, "/result/agentCapabilities/loadSession", false);
            })
        }),
    },
    Mutant {
        id: "acp-in-17-hidden-list",
        requirement: "IN-17",
        wrong: "session/list is answered with null, and is not advertised.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let is_list = sent.answers("session/list");
            let is_start = sent.answers("initialize");
            change(message, is_list || is_start, |m| match is_list {
                true => set(m, "/result", Value::Null),
                false => remove(m, "/result/agentCapabilities/sessionCapabilities/list"),
            })
        }),
    },
    Mutant {
        id: "acp-au-06-no-methods",
        requirement: "AU-06",
        wrong: "A session needs a login, and there is no way to log in.",
        scenario: "auth",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                set(m, "/result/authMethods", json!([]));
            })
        }),
    },
    Mutant {
        id: "acp-au-08-any-method",
        requirement: "AU-08",
        wrong: "A login with a method that does not exist succeeds.",
        scenario: "auth",
        tamper: Tamper::In(|_, message| {
            let known = ["key", "shell"].contains(&text(&message, "/params/methodId"));
            match calls(&message, "authenticate") && !known {
                true => answer(&message, json!({})),
                false => pass(message),
            }
        }),
    },
];
