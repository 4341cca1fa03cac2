//! Scripts of messages to the mock agent.

use serde_json::{Value, json};

use crate::harness_monitors::conversation::{Conversation, ignore_all};

pub fn initialize(t: &mut Conversation, capabilities: Value) {
    let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    t.ask(1001, "initialize", params);
}

pub fn fully(t: &mut Conversation) {
    initialize(
        t,
        json!({
            "fs": { "readTextFile": true, "writeTextFile": true },
            "terminal": true,
            "auth": { "terminal": true },
            "session": { "configOptions": { "boolean": {} }, "notices": {} },
            "elicitation": { "form": {} },
        }),
    );
}

/// A client that supports elicitation by URL but not by form.
pub fn pages(t: &mut Conversation) {
    initialize(t, json!({ "elicitation": { "url": {} } }));
    new_session(t, 1002);
    prompts(t, &["ask a question"]);
}

pub fn new_session(t: &mut Conversation, id: u64) {
    let params = json!({ "cwd": t.dir, "mcpServers": [] });
    let answer = t.ask(id, "session/new", params);
    t.session = answer["result"]["sessionId"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
}

fn prompt_params(t: &Conversation, text: &str) -> Value {
    json!({ "sessionId": t.session, "prompt": [{ "type": "text", "text": text }] })
}

pub fn prompts(t: &mut Conversation, texts: &[&str]) {
    for (id, text) in (1100..).zip(texts) {
        let params = prompt_params(t, text);
        t.ask(id, "session/prompt", params);
    }
}

/// The handshake, a session, a turn, a list, and every kind of invalid envelope.
pub fn basics(t: &mut Conversation) {
    initialize(t, json!({}));
    new_session(t, 1002);
    prompts(t, &["hello"]);
    t.try_to_ask(1004, "session/list", json!({}));
    t.ask(1005, "session/does_not_exist", json!({}));
    t.ask(1006, "session/new", json!({}));
    t.raw("{\"jsonrpc\":\"2.0\",");
    t.raw("{\"id\":1007,\"method\":\"session/list\",\"params\":{}}");
    t.raw("{\"jsonrpc\":\"2.0\",\"id\":\"text-1\",\"method\":\"session/list\",\"params\":{}}");
    t.raw("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"session/list\",\"params\":{}}");
    t.notify("$/cancel_request", json!({ "requestId": 4711 }));
    t.try_to_ask(1008, "_probe/x", json!({}));
    t.notify("_something/unknown", json!({}));
    t.notify("something/unknown", json!({}));
    t.try_to_ask(1010, "session/list", json!({}));
}

pub fn hello(t: &mut Conversation) {
    initialize(t, json!({}));
    new_session(t, 1002);
    prompts(t, &["hello"]);
}

/// Every kind of turn, with a client that has all capabilities.
pub fn everything(t: &mut Conversation) {
    fully(t);
    new_session(t, 1002);
    prompts(
        t,
        &[
            "use a tool",
            "ask for permission",
            "read notes.txt",
            "write notes.txt",
            "use the terminal",
            "make a plan",
            "have a thought",
            "ask a question",
        ],
    );
}

/// The same prompts with a client without capabilities.
pub fn without_services(t: &mut Conversation) {
    initialize(t, json!({}));
    new_session(t, 1002);
    prompts(
        t,
        &["read a", "write b", "use the terminal", "ask a question"],
    );
}

pub fn one_turn(t: &mut Conversation) {
    fully(t);
    new_session(t, 1002);
    prompts(t, &["go"]);
}

pub fn modest_turn(t: &mut Conversation) {
    initialize(t, json!({}));
    new_session(t, 1002);
    prompts(t, &["go"]);
}

pub fn starts(t: &mut Conversation) {
    fully(t);
}

pub fn starts_modestly(t: &mut Conversation) {
    initialize(t, json!({}));
}

/// Two sessions in two directories, one with a turn; then list, load, resume, delete and close.
pub fn sessions(t: &mut Conversation) {
    initialize(t, json!({}));
    new_session(t, 1003);
    let second = t.session.clone();
    new_session(t, 1002);
    prompts(t, &["hello"]);
    t.ask(1005, "session/list", json!({}));
    t.ask(1007, "session/list", json!({ "cwd": "/nowhere/at/all" }));
    let session = t.session.clone();
    let again = json!({ "sessionId": session, "cwd": t.dir, "mcpServers": [] });
    t.ask(1009, "session/load", again.clone());
    t.ask(1010, "session/resume", again);
    prompts(t, &["hello"]);
    t.ask(1011, "session/delete", json!({ "sessionId": second }));
    t.ask(1013, "session/list", json!({}));
    t.ask(1014, "session/close", json!({ "sessionId": session }));
    // A new session must not get the id of the deleted one.
    new_session(t, 1015);
}

fn is_chunk(message: &Value) -> bool {
    message["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
}

/// Starts a long turn and waits for its first chunk.
fn slow_turn(t: &mut Conversation) {
    initialize(t, json!({}));
    new_session(t, 1002);
    let params = prompt_params(t, "be slow");
    t.send(1003, "session/prompt", params);
    t.until(is_chunk);
}

pub fn cancel(t: &mut Conversation) {
    slow_turn(t);
    t.notify("session/cancel", json!({ "sessionId": t.session.clone() }));
    // Waits for the end of the turn, or long enough to see that it does not end.
    for _ in 0..5 {
        let found = t.until(|m| is_chunk(m) || m["id"] == 1003);
        if !found.is_some_and(|m| is_chunk(&m)) {
            break;
        }
    }
}

pub fn cancel_request(t: &mut Conversation) {
    slow_turn(t);
    t.notify("$/cancel_request", json!({ "requestId": 1003 }));
    // Prompts until the canceled turn has ended. Until then the agent refuses a new turn.
    for id in 1004.. {
        let params = prompt_params(t, "hello");
        if t.ask(id, "session/prompt", params).get("error").is_none() {
            break;
        }
    }
}

/// Two sessions that ask for permission at the same time and then get their answers.
pub fn two_questions(t: &mut Conversation) {
    initialize(t, json!({}));
    t.service = ignore_all;
    let (mut open, mut sessions) = (Vec::new(), Vec::new());
    for (session, turn) in [(1002, 1004), (1003, 1005)] {
        new_session(t, session);
        let params = prompt_params(t, "ask for permission");
        t.send(turn, "session/prompt", params);
        open.push(t.until_called("session/request_permission"));
        sessions.push(t.session.clone());
    }
    for request in open {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "reject-once" } });
        let reply = json!({ "jsonrpc": "2.0", "id": request["id"], "result": outcome });
        t.raw(&reply.to_string());
    }
    // A mutant may keep waiting for an answer that went to the other session.
    for session in sessions {
        t.notify("session/cancel", json!({ "sessionId": session }));
    }
    for _ in 0..2 {
        t.until(|message| message["result"]["stopReason"].is_string());
    }
}

pub fn modes(t: &mut Conversation) {
    initialize(t, json!({}));
    new_session(t, 1002);
    let session = t.session.clone();
    t.ask(
        1003,
        "session/set_mode",
        json!({ "sessionId": session, "modeId": "act" }),
    );
    let option = json!({ "sessionId": session, "configId": "model", "value": "large" });
    t.ask(1005, "session/set_config_option", option);
    prompts(t, &["switch"]);
}
