use serde_json::{Value, json};

use super::{Side, is_draft, of, side};

fn messages(method: &str, value: Value) -> Vec<String> {
    let shape = of(method).expect("a known method");
    let errors = shape.check(&value);
    errors.iter().map(|error| error.message("")).collect()
}

fn update(update: Value) -> Value {
    json!({ "sessionId": "s", "update": update })
}

#[test]
fn every_schema_compiles() {
    for method in super::methods::names() {
        let shape = of(method).expect("a shape");
        assert!(shape.validator.is_some(), "{method}");
    }
    assert_eq!(side("session/new"), Some(Side::Agent));
    assert_eq!(side("session/newer"), None);
    assert!(is_draft("session/fork"));
}

#[test]
fn valid_values_have_no_errors() {
    let sound = [
        ("initialize", json!({ "protocolVersion": 1 })),
        (
            "initialize",
            json!({ "protocolVersion": 1, "agentInfo": null, "authMethods": [
                { "id": "a", "name": "A" },
                { "id": "b", "name": "B", "type": "terminal", "args": null, "env": { "A": "b" } },
                { "id": "c", "name": "C", "type": "agent", "_meta": { "any_thing": [1] } },
            ]}),
        ),
        (
            "session/new",
            json!({ "sessionId": "s", "configOptions": [
                { "type": "select", "id": "a", "name": "A", "currentValue": "x", "category": "_own",
                  "options": [{ "group": "g", "name": "G",
                                "options": [{ "value": "x", "name": "X" }] }] },
                { "type": "boolean", "id": "b", "name": "B", "currentValue": true },
            ]}),
        ),
        (
            "session/update",
            update(
                json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "T",
                "rawInput": { "some_thing": 1 }, "content": [
                    { "type": "content", "content": { "type": "text", "text": "a" } },
                    { "type": "diff", "path": "/a", "newText": "b", "oldText": null },
                ]}),
            ),
        ),
        (
            "session/update",
            update(json!({ "sessionUpdate": "agent_message_chunk", "content": {
                "type": "resource", "resource": { "uri": "file:///a", "blob": "aGk=" } } })),
        ),
        (
            "elicitation/create",
            json!({ "sessionId": "s", "mode": "form", "message": "m", "requestedSchema": {
                "type": "object", "properties": { "a": { "type": "string", "enum": ["x"] } },
                "required": ["a"] } }),
        ),
    ];
    for (method, value) in sound {
        assert_eq!(messages(method, value), Vec::<String>::new(), "{method}");
    }
}

#[test]
fn errors_name_the_position_and_the_expected_value() {
    let cases = [
        (
            "initialize",
            json!({ "protocolVersion": "1" }),
            "`/protocolVersion` is a string (\"1\"); expected an integer",
        ),
        (
            "initialize",
            json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": "yes" } }),
            "`/agentCapabilities/loadSession` is a string (\"yes\"); expected true or false",
        ),
        (
            "session/prompt",
            json!({ "stopReason": "done" }),
            "`/stopReason` is \"done\"; expected one of \"end_turn\", \"max_tokens\", \
             \"max_turn_requests\", \"refusal\", \"cancelled\"",
        ),
        (
            "session/update",
            update(json!({ "sessionUpdate": "tool_call", "toolCallId": "t" })),
            "`/update/title` is missing; expected a string",
        ),
        (
            "session/update",
            update(
                json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "T",
                "raw_input": {} }),
            ),
            "`/update/raw_input` has the wrong case; the protocol uses `rawInput`",
        ),
        (
            "session/update",
            update(json!({ "sessionUpdate": "agentMessageChunk",
                "content": { "type": "text", "text": "a" } })),
            "`/update/sessionUpdate` has the wrong case; the protocol uses `agent_message_chunk`",
        ),
        (
            "session/update",
            update(json!({ "sessionUpdate": "plan_removed", "id": "p" })),
            "`/update/sessionUpdate` is part of a draft of the protocol, not of version 1",
        ),
        (
            "session/update",
            update(json!({ "sessionUpdate": "agent_message_chunk",
                "content": { "type": "text", "text": "a", "mood": 1 } })),
            "`/update/content/mood` is not a field of this type; put custom fields into `_meta`",
        ),
        (
            "session/update",
            update(json!({ "sessionUpdate": "usage_update", "used": -1, "size": 2 })),
            "`/update/used` is -1; expected at least 0",
        ),
        (
            "elicitation/create",
            json!({ "sessionId": "s", "mode": "phone", "message": "m" }),
            "`/mode` is \"phone\"; expected one of \"form\", \"url\"",
        ),
        (
            "elicitation/create",
            json!({ "sessionId": "s", "mode": "form", "message": "m", "requestedSchema": {
                "type": "object", "properties": { "a": { "type": "object" } } } }),
            "`/requestedSchema/properties/a/type` is \"object\"; expected one of \"string\", \
             \"number\", \"integer\", \"boolean\", \"array\"",
        ),
    ];
    for (method, value, expected) in cases {
        assert_eq!(messages(method, value), [expected], "{method}");
    }
}

/// The walk and the validator agree on which values are valid.
#[test]
fn the_walk_and_the_validator_agree() {
    let odd = [
        json!(null),
        json!([]),
        json!("x"),
        json!({}),
        json!({ "sessionId": 7, "update": 7 }),
        update(json!({ "sessionUpdate": 7 })),
        update(json!({ "sessionUpdate": "plan", "entries": [{}, 1, null] })),
    ];
    for method in super::methods::names() {
        for value in &odd {
            let shape = of(method).expect("a shape");
            let errors = shape.check(value);
            let second = errors
                .iter()
                .any(|d| matches!(d.kind, super::ShapeErrorKind::Schema(_)));
            assert!(!second, "{method} {value}: {errors:?}");
            let walked = errors.iter().all(super::ShapeError::is_about_a_name);
            let valid = shape.validator.as_ref().is_some_and(|v| v.is_valid(value));
            assert_eq!(walked, valid, "{method} {value}: {errors:?}");
        }
    }
}
