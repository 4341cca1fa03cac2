//! Redacts secrets in output: known values in any
//! encoding (`SecretRedactor`) or as they are (`SecretValues`), known token formats
//! (`TokenRedactor`, `text`), and names of fields that contain secrets.

mod encodings;
mod escapes;
mod forms;
mod masks;
mod names;
mod values;

use serde_json::Value;

pub use encodings::base64_forms;
pub use forms::{TokenRedactor, is_known_token, text, value};
pub use masks::{MASK, RedactingStream, SecretRedactor};
pub use names::{is_secret_name, may_name_secret};
pub use values::SecretValues;

/// Replaces strings in a JSON value, and keys if `keys` is true. Returns whether any was replaced.
pub fn replace_strings(
    value: &mut Value,
    keys: bool,
    replace: &mut dyn FnMut(&str) -> Option<String>,
) -> bool {
    match value {
        Value::String(text) => match replace(text) {
            Some(clean) => {
                *text = clean;
                true
            }
            None => false,
        },
        Value::Array(items) => items.iter_mut().fold(false, |any, item| {
            replace_strings(item, keys, replace) | any
        }),
        Value::Object(map) => {
            let mut any = false;
            if keys && map.keys().any(|key| replace(key).is_some()) {
                any = true;
                for (key, value) in std::mem::take(map) {
                    let key = replace(&key).unwrap_or(key);
                    map.insert(key, value);
                }
            }
            map.values_mut()
                .fold(any, |any, item| replace_strings(item, keys, replace) | any)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
