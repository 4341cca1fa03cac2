//! Where a derived schema takes more than the protocol has, or less than every reader takes.

use serde_json::{Value, json};

pub fn tighten(mut schema: Value) -> Value {
    visit(&mut schema);
    schema
}

fn visit(node: &mut Value) {
    match node {
        Value::Object(object) => {
            // Variants for what a reader does not know yet: a reader's leniency, no licence.
            for union in ["anyOf", "oneOf"] {
                if let Some(Value::Array(branches)) = object.get_mut(union) {
                    branches.retain(|branch| branch.get("not").is_none());
                }
            }
            // Null stands for the default there, by the schema's own mark.
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
