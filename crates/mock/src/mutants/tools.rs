//! Helper functions to read and change messages.

use serde_json::{Map, Value, json};

use super::{MessageFrame, TamperContext};

/// What is written, one message per line.
pub type MessageFrames = Vec<MessageFrame>;
/// What the mock receives, and what is written before that.
pub type Received = (Option<Value>, MessageFrames);

pub fn send(message: Value) -> MessageFrames {
    vec![MessageFrame::Json(message)]
}

/// Changes the message if `when` is true, and sends it.
pub fn change(mut message: Value, when: bool, change: impl FnOnce(&mut Value)) -> MessageFrames {
    if when {
        change(&mut message);
    }
    send(message)
}

pub fn raw(bytes: impl Into<Vec<u8>>) -> MessageFrame {
    MessageFrame::Raw(bytes.into())
}

/// Sets a member, and creates missing objects on the path.
pub fn set(message: &mut Value, path: &str, value: impl Into<Value>) {
    let mut target = message;
    for key in path.split('/').skip(1) {
        if !target.is_object() && !target.is_array() {
            *target = Value::Object(Map::new());
        }
        let next = match target {
            Value::Object(map) => Some(map.entry(key).or_insert(Value::Null)),
            Value::Array(list) => key.parse().ok().and_then(|at: usize| list.get_mut(at)),
            _ => None,
        };
        match next {
            Some(next) => target = next,
            None => return,
        }
    }
    *target = value.into();
}

pub fn remove(message: &mut Value, path: &str) {
    let Some((parent, key)) = path.rsplit_once('/') else {
        return;
    };
    if let Some(Value::Object(map)) = message.pointer_mut(parent) {
        map.remove(key);
    }
}

/// Renames a member.
pub fn rename(message: &mut Value, parent: &str, from: &str, to: &str) {
    if let Some(Value::Object(map)) = message.pointer_mut(parent)
        && let Some(value) = map.remove(from)
    {
        map.insert(to.to_owned(), value);
    }
}

/// Changes each item of a list, if the list exists.
pub fn each(message: &mut Value, path: &str, change: impl FnMut(&mut Value)) {
    if let Some(Value::Array(list)) = message.pointer_mut(path) {
        list.iter_mut().for_each(change);
    }
}

pub fn text<'a>(message: &'a Value, path: &str) -> &'a str {
    let value = message.pointer(path).and_then(Value::as_str);
    value.unwrap_or_default()
}

/// A harmless session update.
pub fn chunk(session: &str, words: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {
            "sessionId": session,
            "update": {
                "sessionUpdate": "agent_message_chunk",
                "content": { "type": "text", "text": words },
            },
        },
    })
}

/// Passes the message on unchanged.
pub fn pass(message: Value) -> Received {
    (Some(message), Vec::new())
}

/// Drops the message.
pub fn drop_message() -> Received {
    (None, Vec::new())
}

/// Remembers the method of the latest request to the client.
pub fn note_request(context: &mut TamperContext, message: &Value) {
    if is_request(message)
        && let Some(method) = message.get("method")
    {
        context.notes.insert("asks", method.clone());
    }
}

/// Drops the error response to the latest request to the client.
pub fn drop_error(context: &mut TamperContext, message: Value, method: &str) -> Received {
    let method_name = context.notes.get("asks").and_then(Value::as_str);
    let lost = method_name.is_some_and(|method_name| method_name.starts_with(method));
    let reply = message.get("method").is_none() && message.get("error").is_some();
    match lost && reply {
        true => drop_message(),
        false => pass(message),
    }
}

/// Changes the message if `when` is true, and passes it on.
pub fn alter(mut message: Value, when: bool, change: impl FnOnce(&mut Value)) -> Received {
    if when {
        change(&mut message);
    }
    pass(message)
}

pub fn calls(message: &Value, method: &str) -> bool {
    message.get("method").and_then(Value::as_str) == Some(method)
}

pub fn is_request(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some()
}

/// Answers instead of the mock, and drops the message.
pub fn answer(message: &Value, result: Value) -> Received {
    let id = message.get("id").cloned().unwrap_or(Value::Null);
    let frame = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    (None, send(frame))
}

pub fn reject(message: &Value, code: i64) -> Received {
    let id = message.get("id").cloned().unwrap_or(Value::Null);
    let error = json!({ "code": code, "message": "no" });
    (
        None,
        send(json!({ "jsonrpc": "2.0", "id": id, "error": error })),
    )
}
