//! Defects of agents of the ACP version 2 draft.

mod messages;
mod opening;
mod sessions;
mod work;

use serde_json::{Value, json};

use super::combine::*;
use super::tools::*;
use super::{AgentMutant, MessageFrame, MessageSummary};

pub fn mutants() -> Vec<AgentMutant> {
    let groups = [
        opening(),
        prompts(),
        reports(),
        transport(),
        opening::mutants(),
        sessions::mutants(),
        work::mutants(),
        messages::mutants(),
    ];
    groups.into_iter().flatten().collect()
}

fn state(message: &Value) -> &str {
    match text(message, "/params/update/sessionUpdate") {
        "state_update" => text(message, "/params/update/state"),
        _ => "",
    }
}

fn in_state(name: &'static str) -> impl MessageMatcher {
    move |_: &MessageSummary, message: &Value| state(message) == name
}

fn shows_terminal() -> impl MessageMatcher {
    |summary: &MessageSummary, _: &Value| {
        matches!(
            summary.update.as_str(),
            "terminal_update" | "terminal_output_chunk"
        )
    }
}

fn opening() -> Vec<AgentMutant> {
    vec![
        mutant("v2-01-no-info", "V2-01")
            .describe("The response to initialize has no `info`.")
            .outgoing(answers("initialize"), removes("/result/info")),
        mutant("v2-02-no-logout", "V2-02")
            .describe("There are auth methods, but auth/logout is not implemented.")
            .scenario("auth")
            .replace_incoming(method("auth/logout"), rejects(-32601)),
        mutant("v2-03-no-list", "V2-03")
            .describe("There are sessions, but session/list is not implemented.")
            .replace_incoming(method("session/list"), rejects(-32601)),
        mutant("v2-03-no-close", "V2-03")
            .describe("There are sessions, but session/close is not implemented.")
            .replace_incoming(method("session/close"), rejects(-32601)),
        mutant("v2-16-env-twice", "V2-16")
            .describe("The environment of a terminal login contains a duplicate variable.")
            .scenario("auth")
            .outgoing(
                answers("initialize"),
                edits_each("/result/authMethods", |method| {
                    if let Some(Value::Array(env)) = method.get_mut("env")
                        && let Some(first) = env.first().cloned()
                    {
                        env.push(first);
                    }
                }),
            ),
        mutant("v2-21-always-two", "V2-21")
            .describe("initialize with version 1 is answered with version 2.")
            .incoming(method("initialize"), sets("/params/protocolVersion", 2)),
    ]
}

fn prompts() -> Vec<AgentMutant> {
    vec![
        mutant("v2-04-stop-reason", "V2-04")
            .describe("The response to a prompt has a stopReason, as in version 1.")
            .outgoing(
                answers("session/prompt"),
                sets("/result/stopReason", "end_turn"),
            ),
        mutant("v2-05-no-echo", "V2-05")
            .describe("The user's message is not reported.")
            .replace_outgoing(updates("user_message"), drops()),
        mutant("v2-05-other-id", "V2-05")
            .describe("The user's message is reported with an id that differs from the response.")
            .outgoing(
                updates("user_message"),
                sets("/params/update/messageId", "another"),
            ),
        mutant("v2-06-no-running", "V2-06")
            .describe("The state running is never reported.")
            .replace_outgoing(in_state("running"), drops()),
        mutant("v2-06-other-session", "V2-06")
            .describe("The state running is reported for another session.")
            .outgoing(in_state("running"), sets("/params/sessionId", "other")),
        mutant("v2-07-other-session", "V2-07")
            .describe("The end of the work is reported for another session.")
            .outgoing(in_state("idle"), sets("/params/sessionId", "other")),
        mutant("v2-07-no-idle", "V2-07")
            .describe("The end of the work is not reported.")
            .replace_outgoing(
                both(
                    |_, message| state(message) == "idle" && !text(message, REASON).is_empty(),
                    not(is(REASON, "cancelled")),
                ),
                drops(),
            ),
        mutant("v2-18-no-reason", "V2-18")
            .describe("The state idle has no stopReason.")
            .outgoing(is(REASON, "end_turn"), removes(REASON)),
        mutant("v2-09-deaf", "V2-09")
            .describe("session/cancel has no effect.")
            .replace_incoming(method("session/cancel"), ignores()),
        mutant("v2-09-end-turn", "V2-09")
            .describe("Cancelled work ends with the stop reason end_turn.")
            .outgoing(is(REASON, "cancelled"), sets(REASON, "end_turn")),
        mutant("v2-09-meta", "V2-09")
            .describe("session/cancel with `_meta` has no effect.")
            .replace_incoming(
                both(method("session/cancel"), has("/params/_meta")),
                ignores(),
            ),
        mutant("v2-09-late-words", "V2-09")
            .describe("Text of canceled work is sent after the state idle.")
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
                    frames.push(MessageFrame::Json(late));
                }
                frames
            }),
        mutant("v2-15-says-running", "V2-15")
            .describe("The state stays running while the agent waits for the user.")
            .replace_outgoing(in_state("requires_action"), drops()),
        mutant("v2-11-no-replay", "V2-11")
            .describe("session/resume replays nothing.")
            .incoming(
                both(
                    method("session/resume"),
                    is("/params/replayFrom/type", "start"),
                ),
                removes("/params/replayFrom"),
            ),
        mutant("v2-11-late-replay", "V2-11")
            .describe("session/resume is answered before the replay.")
            .tamper_out(|context, summary, message| {
                if summary.answers("session/resume") {
                    let held = context.notes.remove("replay");
                    let mut frames = send(message);
                    let held = held.as_ref().and_then(Value::as_array);
                    frames.extend(held.into_iter().flatten().cloned().map(MessageFrame::Json));
                    return frames;
                }
                let replays = context.is_open("session/resume") && state(&message).is_empty();
                if !replays || summary.method != "session/update" {
                    return send(message);
                }
                let held = context.notes.entry("replay").or_insert_with(|| json!([]));
                if let Some(held) = held.as_array_mut() {
                    held.push(message);
                }
                Vec::new()
            }),
        mutant("v2-19-no-state", "V2-19")
            .describe("session/resume reports no state.")
            .tamper_out(|context, _, message| {
                match context.is_open("session/resume") && !state(&message).is_empty() {
                    true => Vec::new(),
                    false => send(message),
                }
            }),
        mutant("v2-20-any-cursor", "V2-20")
            .describe("session/resume accepts an unknown cursor.")
            .incoming(
                both(
                    method("session/resume"),
                    not(is("/params/replayFrom/type", "start")),
                ),
                removes("/params/replayFrom"),
            ),
    ]
}

const REASON: &str = "/params/update/stopReason";

fn reports() -> Vec<AgentMutant> {
    vec![
        mutant("v2-08-no-message-id", "V2-08")
            .describe("Message chunks have no messageId.")
            .outgoing(
                updates("agent_message_chunk"),
                removes("/params/update/messageId"),
            ),
        mutant("v2-10-odd-reason", "V2-10")
            .describe("A custom stop reason does not start with _.")
            .outgoing(is(REASON, "end_turn"), sets(REASON, "finished")),
        mutant("v2-10-odd-kind", "V2-10")
            .describe("A custom tool kind does not start with _.")
            .outgoing(
                both(updates("tool_call_update"), has("/params/update/kind")),
                sets("/params/update/kind", "lookup"),
            ),
        mutant("v2-12-one-terminal", "V2-12")
            .describe("Every terminal has the same id.")
            .outgoing(
                shows_terminal(),
                sets("/params/update/terminalId", "terminal"),
            ),
        mutant("v2-13-relative-cwd", "V2-13")
            .describe("The directory of a command is a relative path.")
            .outgoing(
                both(shows_terminal(), has("/params/update/cwd")),
                sets("/params/update/cwd", "."),
            ),
        mutant("v2-14-no-plan-id", "V2-14")
            .describe("A plan has no id.")
            .outgoing(
                updates("plan_update"),
                removes("/params/update/plan/planId"),
            ),
        mutant("v2-14-part", "V2-14")
            .describe("The second update of a plan contains only the changes.")
            .tamper_out(|context, summary, message| {
                let later = summary.update == "plan_update" && !context.first("plan");
                change(message, later, |m| {
                    let entries = m.pointer_mut("/params/update/plan/entries");
                    if let Some(Value::Array(entries)) = entries {
                        entries.truncate(1);
                    }
                })
            }),
    ]
}

fn transport() -> Vec<AgentMutant> {
    vec![
        mutant("v2-tr-03-noise", "V2-TR-03")
            .describe("A line of text is written between the messages.")
            .tamper_out(|_, summary, message| {
                let mut frames = Vec::new();
                if summary.answers("session/new") {
                    frames.push(raw("session is open\n"));
                }
                frames.push(MessageFrame::Json(message));
                frames
            }),
        mutant("v2-tr-05-no-jsonrpc", "V2-TR-05")
            .describe("Updates have no `jsonrpc`.")
            .outgoing(method("session/update"), removes("/jsonrpc")),
        mutant("v2-tr-06-both", "V2-TR-06")
            .describe("The response to initialize has both a result and an error.")
            .outgoing(
                answers("initialize"),
                sets("/error", json!({ "code": 0, "message": "no error" })),
            ),
        mutant("v2-tr-08-text-id", "V2-TR-08")
            .describe("The response to session/list has its id as a string.")
            .outgoing(answers("session/list"), |message| {
                let id = message.get("id").map(Value::to_string);
                set(message, "/id", id.unwrap_or_default());
            }),
        mutant("v2-tr-10-answers", "V2-TR-10")
            .describe("session/cancel is answered with a result without an id.")
            .replace_incoming(method("session/cancel"), |message| {
                let answer = json!({ "jsonrpc": "2.0", "id": null, "result": null });
                (Some(message), send(answer))
            }),
        mutant("v2-tr-09-twice", "V2-TR-09")
            .describe("A prompt is answered twice.")
            .replace_outgoing(answers("session/prompt"), twice()),
    ]
}
