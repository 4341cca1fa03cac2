//! Converts a tree to JSON, for consumers that need values without places.

use serde_json::{Map, Number, Value as Json};

use crate::tree::{Node, Value};

/// The node as JSON. A float that JSON cannot represent (`.nan`, `.inf`) becomes null, as in
/// other JSON libraries.
pub fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) => Json::Number((*i).into()),
        Value::Float(f) => Number::from_f64(*f).map_or(Json::Null, Json::Number),
        Value::Str(s) => Json::String(s.to_string()),
        Value::Seq(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Map(entries) => {
            let mut map = Map::with_capacity(entries.len());
            for entry in entries {
                map.insert(entry.key.to_string(), to_json(&entry.value));
            }
            Json::Object(map)
        }
    }
}
