//! The two tools of the MCP mock, and the format of their results.

use serde_json::{Map, Value, json};

use crate::scenario::Usage;

pub fn list(revision: &str) -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let prompt = text("What to say to the agent");
    let session = text("The session_id that `start` returned");
    let start = tool(
        revision,
        "start",
        "Starts a conversation with the mock agent.",
        json!({ "type": "object", "properties": { "prompt": prompt }, "required": ["prompt"] }),
    );
    let reply = tool(
        revision,
        "reply",
        "Continues a conversation.",
        json!({
            "type": "object",
            "properties": { "session_id": session, "prompt": prompt },
            "required": ["session_id", "prompt"],
        }),
    );
    json!({ "tools": [start, reply] })
}

/// Name of the tool that only a server with `--record` has. Its result shows that the tool was
/// called.
pub const CANARY: &str = "certify_canary";

pub fn canary() -> Value {
    json!({
        "name": CANARY,
        "description": "Returns the canary of this server.",
        "inputSchema": { "type": "object", "properties": {} },
        "annotations": { "readOnlyHint": true },
    })
}

fn tool(revision: &str, name: &str, description: &str, input: Value) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), name.into());
    map.insert("description".to_owned(), description.into());
    map.insert("inputSchema".to_owned(), input);
    // Structured results were added in 2025-06-18.
    if revision >= "2025-06-18" {
        let output = json!({
            "type": "object",
            "properties": {
                "session_id": { "type": "string" },
                "text": { "type": "string" },
                "stop_reason": { "type": "string" },
            },
            "required": ["session_id", "text", "stop_reason"],
        });
        map.insert("outputSchema".to_owned(), output);
    }
    Value::Object(map)
}

pub fn result(full_text: &str, session: &str, reason: &str) -> Value {
    json!({
        "content": [{ "type": "text", "text": full_text }],
        "structuredContent": { "session_id": session, "text": full_text, "stop_reason": reason },
        "isError": false,
    })
}

/// Tokens, cost and context size. MCP has no names for them.
pub fn usage(usage: &Usage) -> Value {
    let names = [
        "input_tokens",
        "output_tokens",
        "reasoning_tokens",
        "cached_input_tokens",
        "cached_write_tokens",
    ];
    let mut counts = usage.tokens.named(names);
    counts.insert("total_tokens".to_owned(), usage.tokens.total().into());
    let mut meta = json!({
        "usage": counts,
        "context": { "used": usage.used, "size": usage.size },
    });
    if let (Some(amount), Some(meta)) = (usage.cost, meta.as_object_mut()) {
        let cost = json!({ "amount": amount, "currency": usage.currency });
        meta.insert("cost".to_owned(), cost);
    }
    meta
}

/// Result that reports what is wrong with the call.
pub fn error_result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}
