//! The shapes of the draft of ACP v2. `draft.json` lists the names and types of the fields that an
//! agent may send, as of schema 1.15 (November 2026). Values of open enums are strings there,
//! because agents may add their own.

use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value, json};

use super::Shape;

/// A method, and the definition of what the agent sends with it.
struct Method {
    name: String,
    definition: String,
    shape: OnceLock<Shape>,
}

static TEXT: &str = include_str!("draft.json");

static DEFINITIONS: LazyLock<Value> = LazyLock::new(|| {
    let all: Value = serde_json::from_str(TEXT).unwrap_or_default();
    all.get("$defs").cloned().unwrap_or_default()
});

static METHODS: LazyLock<Vec<Method>> = LazyLock::new(|| {
    let all: Value = serde_json::from_str(TEXT).unwrap_or_default();
    let none = Map::new();
    let methods = all.get("methods").and_then(Value::as_object);
    let methods = methods.unwrap_or(&none).iter();
    let methods = methods.filter_map(|(name, definition)| {
        Some(Method {
            name: name.clone(),
            definition: definition.as_str()?.to_owned(),
            shape: OnceLock::new(),
        })
    });
    methods.collect()
});

/// Methods that the agent calls.
const OF_CLIENT: [&str; 5] = [
    "session/update",
    "session/request_permission",
    "elicitation/create",
    "elicitation/complete",
    "$/cancel_request",
];

/// The shape of what an agent sends with a method of the draft: the result of a request to it, or
/// the params of its own call.
pub fn of(method: &str) -> Option<&'static Shape> {
    let methods: &'static [Method] = METHODS.as_slice();
    let found = methods.iter().find(|known| known.name == method)?;
    Some(found.shape.get_or_init(|| {
        let definition = format!("#/$defs/{}", found.definition);
        Shape::new(json!({ "$ref": definition, "$defs": &*DEFINITIONS }))
    }))
}

/// Whether the draft has this method, and whether the agent is the one who calls it.
pub fn is_called_by_agent(method: &str) -> Option<bool> {
    match OF_CLIENT.contains(&method) {
        true => Some(true),
        false => of(method)
            .map(|_| false)
            .or((method == "session/cancel").then_some(false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_a_shape() {
        assert_eq!(METHODS.len(), 17);
        for method in METHODS.iter() {
            let definition = DEFINITIONS.get(&method.definition);
            assert!(definition.is_some_and(Value::is_object), "{}", method.name);
            let shape = of(&method.name).expect("a shape");
            assert!(shape.validator.is_some(), "{}", method.name);
        }
        assert!(of("session/load").is_none());
        assert_eq!(is_called_by_agent("session/update"), Some(true));
        assert_eq!(is_called_by_agent("session/prompt"), Some(false));
        assert_eq!(is_called_by_agent("fs/read_text_file"), None);
    }

    #[test]
    fn wrong_values_are_found() {
        let update = |update: Value| json!({ "sessionId": "s", "update": update });
        let errors = |method: &str, value: &Value| of(method).expect("a shape").check(value).len();
        let good = [
            json!({ "sessionUpdate": "state_update", "state": "idle" }),
            json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "_own" }),
            json!({ "sessionUpdate": "user_message", "messageId": "m", "content": null }),
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "kind": "_own" }),
        ];
        for value in good {
            assert_eq!(
                errors("session/update", &update(value.clone())),
                0,
                "{value}"
            );
        }
        let bad = [
            json!({ "sessionUpdate": "tool_call_update", "status": "pending" }),
            json!({ "sessionUpdate": "agent_message", "messageId": "m", "own": 1 }),
            json!({ "sessionUpdate": "surprise" }),
            json!({ "sessionUpdate": "usage_update", "used": "many", "size": 1 }),
        ];
        for value in bad {
            assert_eq!(
                errors("session/update", &update(value.clone())),
                1,
                "{value}"
            );
        }
        let hello = |session: Value| {
            json!({
                "protocolVersion": 2,
                "info": { "name": "a", "version": "1" },
                "capabilities": { "session": session },
            })
        };
        assert_eq!(errors("initialize", &hello(json!({}))), 0);
        assert_eq!(errors("initialize", &hello(json!(true))), 1);
    }
}
