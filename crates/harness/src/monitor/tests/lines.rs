//! Short functions that create the lines of a conversation.

use serde_json::{Value, json};

fn line(mark: char, message: Value) -> String {
    format!("{mark} {message}")
}

/// A request of the client.
pub fn ask(id: u64, method: &str, params: Value) -> String {
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    line('>', message)
}

pub fn tell(method: &str, params: Value) -> String {
    line(
        '>',
        json!({ "jsonrpc": "2.0", "method": method, "params": params }),
    )
}

/// A result of the agent.
pub fn answer(id: u64, result: Value) -> String {
    line('<', json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// A request of the agent.
pub fn call(id: u64, method: &str, params: Value) -> String {
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    line('<', message)
}

pub fn notify(method: &str, params: Value) -> String {
    line(
        '<',
        json!({ "jsonrpc": "2.0", "method": method, "params": params }),
    )
}

/// The client's result for a request of the agent.
pub fn reply(id: u64, result: Value) -> String {
    line('>', json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// An update of the session `s`.
pub fn update(kind: &str, mut update: Value) -> String {
    update["sessionUpdate"] = kind.into();
    notify(
        "session/update",
        json!({ "sessionId": "s", "update": update }),
    )
}

pub fn words(text: &str) -> String {
    let content = json!({ "type": "text", "text": text });
    update("agent_message_chunk", json!({ "content": content }))
}

/// Lines 1 and 2: `initialize` with the capabilities of the client, and the agent's result.
pub fn start(capabilities: Value, result: Value) -> Vec<String> {
    let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    vec![ask(1, "initialize", params), answer(1, result)]
}

/// Lines 1 to 4: `initialize`, and the session `s`.
pub fn session(capabilities: Value) -> Vec<String> {
    session_with(capabilities, json!({ "sessionId": "s" }))
}

pub fn session_with(capabilities: Value, result: Value) -> Vec<String> {
    let offers = json!({ "sessionCapabilities": { "close": {} } });
    let agent = json!({ "protocolVersion": 1, "agentCapabilities": offers });
    let mut lines = start(capabilities, agent);
    lines.push(ask(
        2,
        "session/new",
        json!({ "cwd": "/w", "mcpServers": [] }),
    ));
    lines.push(answer(2, result));
    lines
}

/// Lines 1 to 5: like `session`, plus a prompt with the id 3.
pub fn turn(capabilities: Value) -> Vec<String> {
    let mut lines = session(capabilities);
    lines.push(prompt(3));
    lines
}

pub fn prompt(id: u64) -> String {
    let block = json!({ "type": "text", "text": "go" });
    ask(
        id,
        "session/prompt",
        json!({ "sessionId": "s", "prompt": [block] }),
    )
}

pub fn end(id: u64) -> String {
    answer(id, json!({ "stopReason": "end_turn" }))
}

/// All capabilities of a client.
pub fn able() -> Value {
    json!({
        "fs": { "readTextFile": true, "writeTextFile": true },
        "terminal": true,
        "auth": { "terminal": true },
        "session": { "configOptions": { "boolean": {} }, "notices": {}, "compaction": {} },
        "elicitation": { "form": {}, "url": {} },
    })
}

/// The lines, followed by `more`.
pub fn then<const N: usize>(mut lines: Vec<String>, more: [String; N]) -> Vec<String> {
    lines.extend(more);
    lines
}
