//! `elicitation/create`: fills in a form with the first values that fit.

use serde_json::{Map, Value, json};

use super::Reply;
use crate::suite::Behavior;

pub fn answer(answer: Behavior, params: &Value) -> Reply {
    Ok(match answer {
        Behavior::Refuse => json!({"action": "decline"}),
        Behavior::Cancel => json!({"action": "cancel"}),
        _ if params.get("mode").and_then(Value::as_str) == Some("url") => {
            json!({"action": "accept"})
        }
        _ => json!({"action": "accept", "content": content(params)}),
    })
}

fn content(params: &Value) -> Value {
    let fields = params.pointer("/requestedSchema/properties");
    let fields = fields.and_then(Value::as_object);
    let mut content = Map::new();
    for (name, field) in fields.into_iter().flatten() {
        content.insert(name.clone(), value(field));
    }
    Value::Object(content)
}

fn value(field: &Value) -> Value {
    if let Some(default) = field.get("default") {
        return default.clone();
    }
    let first = field.pointer("/enum/0").or_else(|| {
        field
            .pointer("/oneOf/0/const")
            .or_else(|| field.pointer("/anyOf/0/const"))
    });
    if let Some(first) = first {
        return first.clone();
    }
    match field.get("type").and_then(Value::as_str) {
        Some("boolean") => json!(true),
        Some("integer" | "number") => field.get("minimum").cloned().unwrap_or(json!(1)),
        Some("array") => json!([]),
        _ => json!("certified"),
    }
}
