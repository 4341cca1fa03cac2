//! Serializes JSON.

use serde_json::{Map, Value};

use super::changes::Quirk;

/// How JSON is written. All styles are equivalent to a parser.
#[derive(Clone, Copy, Default)]
pub struct JsonStyle {
    is_spaced: bool,
    is_escaped: bool,
    order: Order,
}

#[derive(Clone, Copy, Default)]
enum Order {
    #[default]
    Original,
    Sorted,
    Reversed,
}

impl JsonStyle {
    pub fn of(quirks: &[Quirk]) -> JsonStyle {
        JsonStyle {
            is_spaced: quirks.contains(&Quirk::Spaced),
            is_escaped: quirks.contains(&Quirk::Escaped),
            order: match () {
                () if quirks.contains(&Quirk::Sorted) => Order::Sorted,
                () if quirks.contains(&Quirk::Reversed) => Order::Reversed,
                () => Order::Original,
            },
        }
    }

    pub fn line(self, event: &Value) -> Vec<u8> {
        let mut text = String::new();
        self.value(event, &mut text);
        text.push('\n');
        text.into_bytes()
    }

    /// Discovery documents are pretty-printed, because people read them as well.
    pub fn document(self, document: &Value) -> String {
        format!("{document:#}")
    }

    fn value(self, value: &Value, text: &mut String) {
        match value {
            Value::Object(fields) => self.object(fields, text),
            Value::Array(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.comma(at, text);
                    self.value(item, text);
                }
                text.push(']');
            }
            Value::String(words) => self.string(words, text),
            plain => text.push_str(&plain.to_string()),
        }
    }

    fn object(self, fields: &Map<String, Value>, text: &mut String) {
        let mut fields: Vec<_> = fields.iter().collect();
        match self.order {
            Order::Original => {}
            Order::Sorted => fields.sort_by_key(|(name, _)| name.as_str()),
            Order::Reversed => fields.reverse(),
        }
        text.push_str(if self.is_spaced { "{ " } else { "{" });
        for (at, (name, value)) in fields.into_iter().enumerate() {
            self.comma(at, text);
            self.string(name, text);
            text.push_str(if self.is_spaced { " : " } else { ":" });
            self.value(value, text);
        }
        text.push_str(if self.is_spaced { " }" } else { "}" });
    }

    fn comma(self, at: usize, text: &mut String) {
        if at > 0 {
            text.push_str(if self.is_spaced { ", " } else { "," });
        }
    }

    fn string(self, words: &str, text: &mut String) {
        if !self.is_escaped {
            text.push_str(&Value::from(words).to_string());
            return;
        }
        text.push('"');
        for unit in words.encode_utf16() {
            text.push_str(&format!("\\u{unit:04x}"));
        }
        text.push('"');
    }
}

/// A small hash that is the same on every machine. For fingerprints, not for secrets.
pub fn hash(parts: &[&[u8]]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.iter().chain(&[0xff]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}
