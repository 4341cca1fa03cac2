//! What can be wrong with an agent of the draft of version 2.

use serde_json::{Value, json};

use super::tools::{calls, change, each, pass, raw, refuse, remove, send, set, swallow, text};
use super::{Frame, Mutant, Sent, Tamper};

pub static GROUPS: &[&[Mutant]] = &[OPENING, PROMPTS, UPDATES, TRANSPORT];

const SILENT: Vec<Frame> = Vec::new();

fn state(message: &Value) -> &str {
    match text(message, "/params/update/sessionUpdate") {
        "state_update" => text(message, "/params/update/state"),
        _ => "",
    }
}

fn is_terminal(sent: &Sent) -> bool {
    matches!(
        sent.update.as_str(),
        "terminal_update" | "terminal_output_chunk"
    )
}

static OPENING: &[Mutant] = &[
    Mutant {
        id: "v2-01-no-info",
        requirement: "V2-01",
        wrong: "initialize is answered without `info`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let hello = sent.answers("initialize");
            change(message, hello, |m| remove(m, "/result/info"))
        }),
    },
    Mutant {
        id: "v2-02-no-logout",
        requirement: "V2-02",
        wrong: "There are auth methods, but no auth/logout.",
        scenario: "auth",
        tamper: Tamper::In(|_, message| match calls(&message, "auth/logout") {
            true => refuse(&message, -32601),
            false => pass(message),
        }),
    },
    Mutant {
        id: "v2-03-no-list",
        requirement: "V2-03",
        wrong: "There are sessions, but no session/list.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "session/list") {
            true => refuse(&message, -32601),
            false => pass(message),
        }),
    },
    Mutant {
        id: "v2-03-no-close",
        requirement: "V2-03",
        wrong: "There are sessions, but no session/close.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "session/close") {
            true => refuse(&message, -32601),
            false => pass(message),
        }),
    },
    Mutant {
        id: "v2-16-env-twice",
        requirement: "V2-16",
        wrong: "The environment of a terminal login names a variable twice.",
        scenario: "auth",
        tamper: Tamper::Out(|_, sent, message| {
            let hello = sent.answers("initialize");
            change(message, hello, |m| {
                each(m, "/result/authMethods", |method| {
                    if let Some(Value::Array(env)) = method.get_mut("env")
                        && let Some(first) = env.first().cloned()
                    {
                        env.push(first);
                    }
                });
            })
        }),
    },
    Mutant {
        id: "v2-21-always-two",
        requirement: "V2-21",
        wrong: "initialize with version 1 is answered with version 2.",
        scenario: "default",
        tamper: Tamper::In(|_, mut message| {
            if calls(&message, "initialize") {
                set(&mut message, "/params/protocolVersion", 2);
            }
            pass(message)
        }),
    },
];

static PROMPTS: &[Mutant] = &[
    Mutant {
        id: "v2-04-stop-reason",
        requirement: "V2-04",
        wrong: "The answer to a prompt has a stopReason, as in version 1.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let accepted = sent.answers("session/prompt");
            change(message, accepted, |m| {
                set(m, "/result/stopReason", "end_turn");
            })
        }),
    },
    Mutant {
        id: "v2-05-no-echo",
        requirement: "V2-05",
        wrong: "The user's message is not reported.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.update.as_str() {
            "user_message" => SILENT,
            _ => send(message),
        }),
    },
    Mutant {
        id: "v2-05-other-id",
        requirement: "V2-05",
        wrong: "The user's message is reported under another id than the answer names.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let echo = sent.update == "user_message";
            change(message, echo, |m| {
                set(m, "/params/update/messageId", "another");
            })
        }),
    },
    Mutant {
        id: "v2-06-no-running",
        requirement: "V2-06",
        wrong: "The state running is never reported.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| match state(&message) {
            "running" => SILENT,
            _ => send(message),
        }),
    },
    Mutant {
        id: "v2-07-no-idle",
        requirement: "V2-07",
        wrong: "The end of the work is not reported.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let ends = state(&message) == "idle" && !text(&message, REASON).is_empty();
            match ends && text(&message, REASON) != "cancelled" {
                true => SILENT,
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "v2-18-no-reason",
        requirement: "V2-18",
        wrong: "The state idle comes without a stopReason.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let ends = text(&message, REASON) == "end_turn";
            change(message, ends, |m| remove(m, REASON))
        }),
    },
    Mutant {
        id: "v2-09-deaf",
        requirement: "V2-09",
        wrong: "session/cancel changes nothing.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "session/cancel") {
            true => swallow(),
            false => pass(message),
        }),
    },
    Mutant {
        id: "v2-09-end-turn",
        requirement: "V2-09",
        wrong: "Cancelled work ends with the reason end_turn.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let over = text(&message, REASON) == "cancelled";
            change(message, over, |m| set(m, REASON, "end_turn"))
        }),
    },
    Mutant {
        id: "v2-09-late-words",
        requirement: "V2-09",
        wrong: "Words of cancelled work come after idle.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let over = text(&message, REASON) == "cancelled";
            let mut late = message.clone();
            set(
                &mut late,
                "/params/update",
                json!({
                    "sessionUpdate": "agent_message_chunk",
                    "messageId": "late",
                    "content": { "type": "text", "text": "and another thing" },
                }),
            );
            let mut frames = send(message);
            if over {
                frames.push(Frame::Json(late));
            }
            frames
        }),
    },
    Mutant {
        id: "v2-15-says-running",
        requirement: "V2-15",
        wrong: "The state stays running while the user is asked.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| match state(&message) {
            "requires_action" => SILENT,
            _ => send(message),
        }),
    },
    Mutant {
        id: "v2-11-no-replay",
        requirement: "V2-11",
        wrong: "session/resume replays nothing.",
        scenario: "default",
        tamper: Tamper::In(|_, mut message| {
            if calls(&message, "session/resume")
                && text(&message, "/params/replayFrom/type") == "start"
            {
                remove(&mut message, "/params/replayFrom");
            }
            pass(message)
        }),
    },
    Mutant {
        id: "v2-11-late-replay",
        requirement: "V2-11",
        wrong: "session/resume is answered before the replay.",
        scenario: "default",
        tamper: Tamper::Out(|context, sent, message| {
            if sent.answers("session/resume") {
                let held = context.notes.remove("replay");
                let mut frames = send(message);
                let held = held.as_ref().and_then(Value::as_array);
                frames.extend(held.into_iter().flatten().cloned().map(Frame::Json));
                return frames;
            }
            let replays = context.is_open("session/resume") && state(&message).is_empty();
            if !replays || sent.method != "session/update" {
                return send(message);
            }
            let held = context.notes.entry("replay").or_insert_with(|| json!([]));
            if let Some(held) = held.as_array_mut() {
                held.push(message);
            }
            SILENT
        }),
    },
    Mutant {
        id: "v2-19-no-state",
        requirement: "V2-19",
        wrong: "session/resume tells no state.",
        scenario: "default",
        tamper: Tamper::Out(|context, _, message| {
            match context.is_open("session/resume") && !state(&message).is_empty() {
                true => SILENT,
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "v2-20-any-cursor",
        requirement: "V2-20",
        wrong: "session/resume takes a cursor that it does not know for none.",
        scenario: "default",
        tamper: Tamper::In(|_, mut message| {
            if calls(&message, "session/resume")
                && text(&message, "/params/replayFrom/type") != "start"
            {
                remove(&mut message, "/params/replayFrom");
            }
            pass(message)
        }),
    },
];

const REASON: &str = "/params/update/stopReason";

static UPDATES: &[Mutant] = &[
    Mutant {
        id: "v2-08-no-message-id",
        requirement: "V2-08",
        wrong: "Chunks of a message have no messageId.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let words = sent.update == "agent_message_chunk";
            change(message, words, |m| remove(m, "/params/update/messageId"))
        }),
    },
    Mutant {
        id: "v2-10-odd-reason",
        requirement: "V2-10",
        wrong: "A stop reason of its own does not start with _.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let ends = text(&message, REASON) == "end_turn";
            change(message, ends, |m| set(m, REASON, "finished"))
        }),
    },
    Mutant {
        id: "v2-10-odd-kind",
        requirement: "V2-10",
        wrong: "A kind of tool of its own does not start with _.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let kind = "/params/update/kind";
            let has = sent.update == "tool_call_update" && message.pointer(kind).is_some();
            change(message, has, |m| set(m, kind, "lookup"))
        }),
    },
    Mutant {
        id: "v2-12-one-terminal",
        requirement: "V2-12",
        wrong: "Every terminal has the same id.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let shown = is_terminal(sent);
            change(message, shown, |m| {
                set(m, "/params/update/terminalId", "terminal");
            })
        }),
    },
    Mutant {
        id: "v2-13-relative-cwd",
        requirement: "V2-13",
        wrong: "The directory of a command is relative.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let cwd = "/params/update/cwd";
            let has = is_terminal(sent) && message.pointer(cwd).is_some();
            change(message, has, |m| set(m, cwd, "."))
        }),
    },
    Mutant {
        id: "v2-14-no-plan-id",
        requirement: "V2-14",
        wrong: "A plan has no id.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let plan = sent.update == "plan_update";
            change(message, plan, |m| remove(m, "/params/update/plan/planId"))
        }),
    },
    Mutant {
        id: "v2-14-part",
        requirement: "V2-14",
        wrong: "The second update of a plan has only what changed.",
        scenario: "default",
        tamper: Tamper::Out(|context, sent, message| {
            let later = sent.update == "plan_update" && !context.first("plan");
            change(message, later, |m| {
                let entries = m.pointer_mut("/params/update/plan/entries");
                if let Some(Value::Array(entries)) = entries {
                    entries.truncate(1);
                }
            })
        }),
    },
];

static TRANSPORT: &[Mutant] = &[
    Mutant {
        id: "v2-tr-03-noise",
        requirement: "V2-TR-03",
        wrong: "A line of words stands between the messages.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let mut frames = Vec::new();
            if sent.answers("session/new") {
                frames.push(raw("session is open\n"));
            }
            frames.push(Frame::Json(message));
            frames
        }),
    },
    Mutant {
        id: "v2-tr-05-no-jsonrpc",
        requirement: "V2-TR-05",
        wrong: "Updates have no `jsonrpc`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let update = sent.method == "session/update";
            change(message, update, |m| remove(m, "/jsonrpc"))
        }),
    },
    Mutant {
        id: "v2-tr-09-twice",
        requirement: "V2-TR-09",
        wrong: "A prompt is answered twice: when it is taken, and once more.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.answers("session/prompt") {
            true => vec![Frame::Json(message.clone()), Frame::Json(message)],
            false => send(message),
        }),
    },
];
