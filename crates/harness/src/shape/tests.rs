use serde_json::{Value, json};

use super::{Side, is_draft, of, side};

fn told(method: &str, value: Value) -> Vec<String> {
    let shape = of(method).expect("a known method");
    let defects = shape.judge(&value);
    defects.iter().map(|defect| defect.message("")).collect()
}

fn update(update: Value) -> Value {
    json!({ "sessionId": "s", "update": update })
}

#[test]
fn methods_have_a_side_and_a_shape() {
    for method in super::methods::names() {
        assert!(of(method).is_some(), "{method}");
    }
    assert_eq!(side("session/new"), Some(Side::Agent));
    assert_eq!(side("session/newer"), None);
    assert!(is_draft("session/fork"));
}

#[test]
fn sound_values_have_no_defect() {
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
        assert_eq!(told(method, value), Vec::<String>::new(), "{method}");
    }
}

#[test]
fn defects_are_told_where_they_are() {
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
            "`/update/raw_input` is spelled in another case; the protocol says `rawInput`",
        ),
        (
            "session/update",
            update(json!({ "sessionUpdate": "agentMessageChunk",
                "content": { "type": "text", "text": "a" } })),
            "`/update/sessionUpdate` is spelled in another case; the protocol says \
             `agent_message_chunk`",
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
            "`/update/content/mood` is no field of this type; what is not in the protocol \
             belongs into `_meta`",
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
        assert_eq!(told(method, value), [expected], "{method}");
    }
}

/// The walk and the `jsonschema` crate agree on what is sound, whatever the value.
#[test]
fn odd_values_are_as_odd_for_the_jsonschema_crate() {
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
            let defects = shape.judge(value);
            let walked = defects.iter().all(super::Defect::is_about_a_name);
            let valid = jsonschema::is_valid(&shape.schema, value);
            assert_eq!(walked, valid, "{method} {value}: {defects:?}");
        }
    }
}

/// Of one method so many are altered in the test below.
const MOST_SAMPLES: usize = 400;

/// Values that a schema takes: one with everything, and others in which one part is otherwise.
fn samples(root: &Value, schema: &Value, depth: usize) -> Vec<Value> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(value) = schema.get("const") {
        return vec![value.clone()];
    }
    if let Some(values) = list("enum") {
        return values.clone();
    }
    let mut all = own_samples(root, schema, depth);
    if let Some(Value::String(name)) = schema.get("$ref") {
        let target = root.pointer(name.trim_start_matches('#')).expect("a $ref");
        all = joined(&all, &samples(root, target, depth));
    }
    for part in list("allOf").into_iter().flatten() {
        all = joined(&all, &samples(root, part, depth));
    }
    for union in ["oneOf", "anyOf"] {
        if let Some(branches) = list(union) {
            let branches = branches.iter().flat_map(|b| samples(root, b, depth));
            all = joined(&all, &branches.collect::<Vec<_>>());
        }
    }
    all
}

fn own_samples(root: &Value, schema: &Value, depth: usize) -> Vec<Value> {
    let types = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let of_type = |name: &&str| match *name {
        "string" => vec![json!("x")],
        "integer" => vec![schema.get("minimum").cloned().unwrap_or(json!(1))],
        "number" => vec![json!(1.5)],
        "boolean" => vec![json!(true)],
        "null" => vec![Value::Null],
        "array" => match schema.get("items").filter(|_| depth > 0) {
            Some(items) => {
                let items = samples(root, items, depth - 1);
                items.into_iter().map(|item| json!([item])).collect()
            }
            None => vec![json!([])],
        },
        _ => objects(root, schema, depth),
    };
    types.iter().flat_map(of_type).collect()
}

fn objects(root: &Value, schema: &Value, depth: usize) -> Vec<Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |key: &String| required.is_some_and(|r| r.iter().any(|k| k == key));
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties: Vec<(&String, Vec<Value>)> = properties
        .into_iter()
        .flatten()
        .filter(|(key, _)| depth > 0 || is_required(key))
        .map(|(key, sub)| (key, samples(root, sub, depth.saturating_sub(1))))
        .collect();
    let first = properties.iter().filter_map(|(key, values)| {
        let value = values.first()?;
        Some(((*key).clone(), value.clone()))
    });
    let whole: serde_json::Map<String, Value> = first.collect();
    let mut all = vec![Value::Object(whole.clone())];
    for (key, values) in &properties {
        for other in values.iter().skip(1) {
            let mut varied = whole.clone();
            varied.insert((*key).clone(), other.clone());
            all.push(Value::Object(varied));
        }
    }
    all
}

/// Each of the one with the first of the other, and the first with each of the other.
fn joined(one: &[Value], other: &[Value]) -> Vec<Value> {
    let join = |a: &Value, b: &Value| match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let members = a.iter().chain(b).map(|(k, v)| (k.clone(), v.clone()));
            Value::Object(members.collect())
        }
        (_, b) => b.clone(),
    };
    match (one, other) {
        ([], all) | (all, []) => all.to_vec(),
        ([a, rest @ ..], [b, ..]) => {
            let first = other.iter().map(|b| join(a, b));
            first.chain(rest.iter().map(|a| join(a, b))).collect()
        }
    }
}

/// The value with one place in it set to something else, or left out.
fn altered(value: &Value) -> Vec<Value> {
    let others = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(70_000),
        json!(""),
        json!("x"),
        json!([]),
        json!([1]),
        json!({}),
        json!({ "a": 1 }),
    ];
    let mut all = others.to_vec();
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                let mut without = object.clone();
                without.remove(key);
                all.push(Value::Object(without));
                for new in altered(inner) {
                    let mut changed = object.clone();
                    changed.insert(key.clone(), new);
                    all.push(Value::Object(changed));
                }
            }
        }
        Value::Array(list) => {
            for (index, inner) in list.iter().enumerate() {
                for new in altered(inner) {
                    let mut changed = list.clone();
                    changed[index] = new;
                    all.push(Value::Array(changed));
                }
            }
        }
        _ => {}
    }
    all
}

/// The walk needs no second opinion: what it finds sound, the `jsonschema` crate does as well.
#[test]
fn the_jsonschema_crate_agrees_on_what_is_sound() {
    for method in super::methods::names() {
        let shape = of(method).expect("a shape");
        let schema = &shape.schema;
        let oracle = jsonschema::validator_for(schema).expect("a schema");
        let samples = samples(schema, schema, 5);
        assert!(!samples.is_empty(), "{method}");
        for sample in samples.iter().step_by(1 + samples.len() / MOST_SAMPLES) {
            for value in altered(sample).iter().chain([sample]) {
                let defects = shape.judge(value);
                let is_sound = defects.iter().all(super::Defect::is_about_a_name);
                assert!(!is_sound || oracle.is_valid(value), "{method} {value}");
            }
        }
    }
}
