//! Variants of the serialization of messages. All of them produce equivalent JSON.

use std::io::Write;

use serde_json::Value;

use super::{AgentVariant, with_serialization};
use crate::AgentKind;

/// How messages are written.
#[derive(Clone, Copy)]
pub struct Serialization {
    /// Writes one message, without the line ending.
    pub(crate) write: fn(&Value, &mut Vec<u8>),
    /// Delay before every message in milliseconds.
    pub(crate) delay_ms: u64,
    /// Whether responses to open requests are sent in reverse order.
    pub(crate) reverses: bool,
}

impl Serialization {
    /// Compact JSON without delays, in order.
    pub const PLAIN: Serialization = Serialization {
        write: plain,
        delay_ms: 0,
        reverses: false,
    };
    const fn with(write: fn(&Value, &mut Vec<u8>)) -> Serialization {
        Serialization {
            write,
            ..Serialization::PLAIN
        }
    }
}

const SLOW: Serialization = Serialization {
    delay_ms: 30,
    ..Serialization::PLAIN
};
const REVERSING: Serialization = Serialization {
    reverses: true,
    ..Serialization::PLAIN
};

pub fn variants() -> Vec<AgentVariant> {
    vec![
        with_serialization(
            AgentKind::Acp,
            "reversed-keys",
            REVERSED,
            Serialization::with(reversed),
        ),
        with_serialization(
            AgentKind::Acp,
            "sorted-keys",
            SORTED,
            Serialization::with(sorted),
        ),
        with_serialization(
            AgentKind::Acp,
            "spaces",
            SPACED,
            Serialization::with(spaced),
        ),
        with_serialization(
            AgentKind::Acp,
            "escapes",
            ESCAPED,
            Serialization::with(escaped),
        ),
        with_serialization(
            AgentKind::Acp,
            "crlf",
            CRLF,
            Serialization::with(with_return),
        ),
        with_serialization(AgentKind::Acp, "slow", LATE, SLOW),
        with_serialization(AgentKind::Acp, "out-of-order", ORDER, REVERSING),
        with_serialization(
            AgentKind::AcpV2,
            "reversed-keys",
            REVERSED,
            Serialization::with(reversed),
        ),
        with_serialization(
            AgentKind::AcpV2,
            "spaces",
            SPACED,
            Serialization::with(spaced),
        ),
        with_serialization(AgentKind::AcpV2, "slow", LATE, SLOW),
        with_serialization(
            AgentKind::Mcp,
            "reversed-keys",
            REVERSED,
            Serialization::with(reversed),
        ),
        with_serialization(
            AgentKind::Mcp,
            "sorted-keys",
            SORTED,
            Serialization::with(sorted),
        ),
        with_serialization(
            AgentKind::Mcp,
            "spaces",
            SPACED,
            Serialization::with(spaced),
        ),
        with_serialization(
            AgentKind::Mcp,
            "escapes",
            ESCAPED,
            Serialization::with(escaped),
        ),
        with_serialization(AgentKind::Mcp, "slow", LATE, SLOW),
    ]
}

const REVERSED: &str = "The members of every object are in reverse order.";
const SORTED: &str = "The members of every object are sorted by name.";
const SPACED: &str = "There is whitespace wherever JSON allows it, except line breaks.";
const ESCAPED: &str = "Every character of every string is an escape sequence.";
const CRLF: &str = "Lines end with CR LF.";
const LATE: &str = "Every message is delayed by 30 ms.";
const ORDER: &str = "Of two concurrent session/new requests, the second is answered first.";

fn plain(message: &Value, bytes: &mut Vec<u8>) {
    // Serialization into memory with string keys cannot fail.
    let _ = serde_json::to_writer(bytes, message);
}

fn with_return(message: &Value, bytes: &mut Vec<u8>) {
    plain(message, bytes);
    bytes.push(b'\r');
}

fn reversed(message: &Value, bytes: &mut Vec<u8>) {
    let style = Style {
        order: |members| members.reverse(),
        ..Style::PLAIN
    };
    style.value(message, bytes);
}

fn sorted(message: &Value, bytes: &mut Vec<u8>) {
    let style = Style {
        order: |members| members.sort_by(|a, b| a.0.cmp(b.0)),
        ..Style::PLAIN
    };
    style.value(message, bytes);
}

fn spaced(message: &Value, bytes: &mut Vec<u8>) {
    let style = Style {
        space: " \t ",
        ..Style::PLAIN
    };
    style.value(message, bytes);
}

fn escaped(message: &Value, bytes: &mut Vec<u8>) {
    let style = Style {
        string: |text, bytes| {
            bytes.push(b'"');
            for unit in text.encode_utf16() {
                let _ = write!(bytes, "\\u{unit:04x}");
            }
            bytes.push(b'"');
        },
        ..Style::PLAIN
    };
    style.value(message, bytes);
}

type Members<'a> = Vec<(&'a String, &'a Value)>;

/// A configurable JSON serializer.
struct Style {
    space: &'static str,
    order: fn(&mut Members<'_>),
    string: fn(&str, &mut Vec<u8>),
}

impl Style {
    const PLAIN: Style = Style {
        space: "",
        order: |_| {},
        string: |text, bytes| _ = serde_json::to_writer(bytes, text),
    };

    fn value(&self, value: &Value, bytes: &mut Vec<u8>) {
        self.gap(bytes);
        match value {
            Value::Object(map) => {
                let mut members: Members<'_> = map.iter().collect();
                (self.order)(&mut members);
                bytes.push(b'{');
                for (path, (name, value)) in members.into_iter().enumerate() {
                    if path > 0 {
                        bytes.push(b',');
                    }
                    self.gap(bytes);
                    (self.string)(name, bytes);
                    self.gap(bytes);
                    bytes.push(b':');
                    self.value(value, bytes);
                }
                bytes.push(b'}');
            }
            Value::Array(list) => {
                bytes.push(b'[');
                for (path, value) in list.iter().enumerate() {
                    if path > 0 {
                        bytes.push(b',');
                    }
                    self.value(value, bytes);
                }
                bytes.push(b']');
            }
            Value::String(text) => (self.string)(text, bytes),
            other => plain(other, bytes),
        }
        self.gap(bytes);
    }

    fn gap(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.space.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_serialization_is_the_same_json_on_one_line() {
        let message = json!({ "a": ["x\n\"", 1.5, {}, null], "ß🦊": { "b": true, "a": [] } });
        for variant in variants() {
            let mut bytes = Vec::new();
            (variant.serialization.write)(&message, &mut bytes);
            let read: Value = serde_json::from_slice(&bytes).expect(variant.name);
            assert_eq!(read, message, "{}", variant.name);
            assert!(!bytes.contains(&b'\n'), "{}", variant.name);
        }
    }

    #[test]
    fn serializations_differ_in_their_bytes() {
        let message = json!({ "b": 1, "a": "x" });
        let written = |write: fn(&Value, &mut Vec<u8>)| {
            let mut bytes = Vec::new();
            write(&message, &mut bytes);
            String::from_utf8(bytes).expect("UTF-8")
        };
        assert_eq!(written(reversed), r#"{"a":"x","b":1}"#);
        assert_eq!(written(plain), r#"{"b":1,"a":"x"}"#);
        assert!(written(escaped).contains(r#""\u0061":"\u0078""#));
        assert!(written(spaced).starts_with(" \t {"));
    }
}
