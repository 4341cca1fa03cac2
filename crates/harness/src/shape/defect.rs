//! One thing that is wrong with a value.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// JSON pointer; for a missing key, where it should stand.
    pub at: String,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Missing {
        expected: String,
    },
    /// Another JSON type.
    Type {
        expected: String,
        found: String,
    },
    /// The right type, but none of the values that are allowed.
    Value {
        expected: String,
        found: String,
    },
    /// A key that the type does not have.
    Unknown,
    /// A key of a draft of the protocol.
    Draft,
    /// A variant of a draft.
    DraftVariant,
    /// The name of a known key or variant, spelled in another case.
    Case {
        right: String,
    },
    /// As the JSON Schema validator says.
    Schema(String),
}

impl Defect {
    /// Whether only a name is wrong; whatever is known has its shape.
    pub fn is_about_a_name(&self) -> bool {
        matches!(self.fault, Fault::Unknown | Fault::Draft)
    }

    /// The last part of the pointer.
    pub fn key(&self) -> &str {
        self.at.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it stands at this pointer or below.
    pub fn is_in(&self, pointer: &str) -> bool {
        let rest = self.at.strip_prefix(pointer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The pointer with `*` for every item of a list.
    pub fn place(&self) -> String {
        let parts = self.at.split('/');
        let parts = parts.map(|part| match part.parse::<usize>() {
            Ok(_) => "*",
            Err(_) => part,
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// In words; `root` is where the value stands in the message.
    pub fn message(&self, root: &str) -> String {
        let at = format!("`{root}{}`", self.at);
        match &self.fault {
            Fault::Missing { expected } => format!("{at} is missing; expected {expected}"),
            Fault::Type { expected, found } => {
                format!("{at} is {found}; expected {expected}")
            }
            Fault::Value { expected, found } => {
                format!("{at} is {found}; expected {expected}")
            }
            Fault::Unknown => {
                format!(
                    "{at} is no field of this type; what is not in the protocol belongs into `_meta`"
                )
            }
            Fault::Draft | Fault::DraftVariant => {
                format!("{at} is part of a draft of the protocol, not of version 1")
            }
            Fault::Case { right } => {
                format!("{at} is spelled in another case; the protocol says `{right}`")
            }
            Fault::Schema(why) => format!("{at}: {why}"),
        }
    }
}

/// A value in a message: short.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    match value {
        Value::Object(_) => format!("the object {short}"),
        Value::Array(_) => format!("the list {short}"),
        _ => short,
    }
}
