//! Adapts derived schemas: removes what the protocol does not allow, and adds what every parser
//! accepts.

use serde_json::{Value, json};

pub fn tighten(mut schema: Value) -> Value {
    visit(&mut schema);
    schema
}

fn visit(node: &mut Value) {
    match node {
        Value::Object(object) => {
            // Remove variants for unknown values: they are for tolerant readers, not for senders.
            for union in ["anyOf", "oneOf"] {
                if let Some(Value::Array(branches)) = object.get_mut(union) {
                    branches.retain(|branch| branch.get("not").is_none());
                }
            }
            // A marker of the schema says that null means the default.
            let mark = object.get("x-deserialize-default-on-null");
            if mark == Some(&Value::Bool(true))
                && let Some(Value::String(name)) = object.get("type").cloned()
            {
                object.insert("type".to_owned(), json!([name, "null"]));
            }
            object.values_mut().for_each(visit);
        }
        Value::Array(list) => list.iter_mut().for_each(visit),
        _ => {}
    }
}
