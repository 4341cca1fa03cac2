//! Defects of agents of the ACP version 2 draft.

use serde_json::{Value, json};

use super::combine::*;
use super::tools::*;
use super::{Frame, Mutant, Sent};

pub fn mutants() -> Vec<Mutant> {
    let groups = [opening(), prompts(), reports(), transport()];
    groups.into_iter().flatten().collect()
}

fn state(message: &Value) -> &str {
    match text(message, "/params/update/sessionUpdate") {
        "state_update" => text(message, "/params/update/state"),
        _ => "",
    }
}

fn in_state(name: &'static str) -> impl When {
    move |_: &Sent, message: &Value| state(message) == name
}

fn shows_terminal() -> impl When {
    |sent: &Sent, _: &Value| {
        matches!(
            sent.update.as_str(),
            "terminal_update" | "terminal_output_chunk"
        )
    }
}

fn opening() -> Vec<Mutant> {
    vec![
        wrong("v2-01-no-info", "V2-01")
            .says("The response to initialize has no `info`.")
            .out(answers("initialize"), removes("/result/info")),
        wrong("v2-02-no-logout", "V2-02")
            .says("There are auth methods, but auth/logout is not implemented.")
            .scenario("auth")
            .heard_as(method("auth/logout"), refuses(-32601)),
        wrong("v2-03-no-list", "V2-03")
            .says("There are sessions, but session/list is not implemented.")
            .heard_as(method("session/list"), refuses(-32601)),
        wrong("v2-03-no-close", "V2-03")
            .says("There are sessions, but session/close is not implemented.")
            .heard_as(method("session/close"), refuses(-32601)),
        wrong("v2-16-env-twice", "V2-16")
            .says("The environment of a terminal login contains a duplicate variable.")
            .scenario("auth")
            .out(
                answers("initialize"),
                edits_each("/result/authMethods", |method| {
                    if let Some(Value::Array(env)) = method.get_mut("env")
                        && let Some(first) = env.first().cloned()
                    {
                        env.push(first);
                    }
                }),
            ),
        wrong("v2-21-always-two", "V2-21")
            .says("initialize with version 1 is answered with version 2.")
            .heard(method("initialize"), sets("/params/protocolVersion", 2)),
    ]
}

fn prompts() -> Vec<Mutant> {
    vec![
        wrong("v2-04-stop-reason", "V2-04")
            .says("The response to a prompt has a stopReason, as in version 1.")
            .out(
                answers("session/prompt"),
                sets("/result/stopReason", "end_turn"),
            ),
        wrong("v2-05-no-echo", "V2-05")
            .says("The user's message is not reported.")
            .out_as(updates("user_message"), drops()),
        wrong("v2-05-other-id", "V2-05")
            .says("The user's message is reported with an id that differs from the response.")
            .out(
                updates("user_message"),
                sets("/params/update/messageId", "another"),
            ),
        wrong("v2-06-no-running", "V2-06")
            .says("The state running is never reported.")
            .out_as(in_state("running"), drops()),
        wrong("v2-07-no-idle", "V2-07")
            .says("The end of the work is not reported.")
            .out_as(
                both(
                    |_, message| state(message) == "idle" && !text(message, REASON).is_empty(),
                    not(is(REASON, "cancelled")),
                ),
                drops(),
            ),
        wrong("v2-18-no-reason", "V2-18")
            .says("The state idle has no stopReason.")
            .out(is(REASON, "end_turn"), removes(REASON)),
        wrong("v2-09-deaf", "V2-09")
            .says("session/cancel has no effect.")
            .heard_as(method("session/cancel"), ignores()),
        wrong("v2-09-end-turn", "V2-09")
            .says("Cancelled work ends with the stop reason end_turn.")
            .out(is(REASON, "cancelled"), sets(REASON, "end_turn")),
        wrong("v2-09-late-words", "V2-09")
            .says("Text of cancelled work is sent after the state idle.")
            .tamper_out(|_, _, message| {
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
        wrong("v2-15-says-running", "V2-15")
            .says("The state stays running while the agent waits for the user.")
            .out_as(in_state("requires_action"), drops()),
        wrong("v2-11-no-replay", "V2-11")
            .says("session/resume replays nothing.")
            .heard(
                both(
                    method("session/resume"),
                    is("/params/replayFrom/type", "start"),
                ),
                removes("/params/replayFrom"),
            ),
        wrong("v2-11-late-replay", "V2-11")
            .says("session/resume is answered before the replay.")
            .tamper_out(|context, sent, message| {
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
                Vec::new()
            }),
        wrong("v2-19-no-state", "V2-19")
            .says("session/resume reports no state.")
            .tamper_out(|context, _, message| {
                match context.is_open("session/resume") && !state(&message).is_empty() {
                    true => Vec::new(),
                    false => send(message),
                }
            }),
        wrong("v2-20-any-cursor", "V2-20")
            .says("session/resume accepts an unknown cursor.")
            .heard(
                both(
                    method("session/resume"),
                    not(is("/params/replayFrom/type", "start")),
                ),
                removes("/params/replayFrom"),
            ),
    ]
}

const REASON: &str = "/params/update/stopReason";

fn reports() -> Vec<Mutant> {
    vec![
        wrong("v2-08-no-message-id", "V2-08")
            .says("Message chunks have no messageId.")
            .out(
                updates("agent_message_chunk"),
                removes("/params/update/messageId"),
            ),
        wrong("v2-10-odd-reason", "V2-10")
            .says("A custom stop reason does not start with _.")
            .out(is(REASON, "end_turn"), sets(REASON, "finished")),
        wrong("v2-10-odd-kind", "V2-10")
            .says("A custom tool kind does not start with _.")
            .out(
                both(updates("tool_call_update"), has("/params/update/kind")),
                sets("/params/update/kind", "lookup"),
            ),
        wrong("v2-12-one-terminal", "V2-12")
            .says("Every terminal has the same id.")
            .out(
                shows_terminal(),
                sets("/params/update/terminalId", "terminal"),
            ),
        wrong("v2-13-relative-cwd", "V2-13")
            .says("The directory of a command is a relative path.")
            .out(
                both(shows_terminal(), has("/params/update/cwd")),
                sets("/params/update/cwd", "."),
            ),
        wrong("v2-14-no-plan-id", "V2-14")
            .says("A plan has no id.")
            .out(
                updates("plan_update"),
                removes("/params/update/plan/planId"),
            ),
        wrong("v2-14-part", "V2-14")
            .says("The second update of a plan contains only the changes.")
            .tamper_out(|context, sent, message| {
                let later = sent.update == "plan_update" && !context.first("plan");
                change(message, later, |m| {
                    let entries = m.pointer_mut("/params/update/plan/entries");
                    if let Some(Value::Array(entries)) = entries {
                        entries.truncate(1);
                    }
                })
            }),
    ]
}

fn transport() -> Vec<Mutant> {
    vec![
        wrong("v2-tr-03-noise", "V2-TR-03")
            .says("A line of text is written between the messages.")
            .tamper_out(|_, sent, message| {
                let mut frames = Vec::new();
                if sent.answers("session/new") {
                    frames.push(raw("session is open\n"));
                }
                frames.push(Frame::Json(message));
                frames
            }),
        wrong("v2-tr-05-no-jsonrpc", "V2-TR-05")
            .says("Updates have no `jsonrpc`.")
            .out(method("session/update"), removes("/jsonrpc")),
        wrong("v2-tr-09-twice", "V2-TR-09")
            .says("A prompt is answered twice.")
            .out_as(answers("session/prompt"), twice()),
    ]
}
