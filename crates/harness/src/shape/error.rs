//! One error in a value.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError {
    /// JSON Pointer. For a missing key, where the key should be.
    pub at: String,
    pub kind: ShapeErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShapeErrorKind {
    Missing {
        expected: String,
    },
    /// A different JSON type.
    Type {
        expected: String,
        found: String,
    },
    /// The right type, but not an allowed value.
    Value {
        expected: String,
        found: String,
    },
    /// A key that the type does not have.
    Unknown,
    /// A key of a draft of the protocol.
    Draft,
    /// A key of an earlier draft of the protocol, which later drafts do not have.
    FormerDraft,
    /// A variant of a draft of the protocol.
    DraftVariant,
    /// A known key or variant in a different case.
    Case {
        right: String,
    },
    /// An error of the JSON Schema validator.
    Schema(String),
}

impl ShapeError {
    /// Whether only a key is unknown, and everything else is valid.
    pub fn is_about_a_name(&self) -> bool {
        matches!(
            self.kind,
            ShapeErrorKind::Unknown | ShapeErrorKind::Draft | ShapeErrorKind::FormerDraft
        )
    }

    /// The last part of the pointer.
    pub fn key(&self) -> &str {
        self.at.rsplit('/').next().unwrap_or_default()
    }

    /// Whether the error is at this pointer or below.
    pub fn is_in(&self, pointer: &str) -> bool {
        let rest = self.at.strip_prefix(pointer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The pointer with `*` for every list index.
    pub fn place(&self) -> String {
        let parts = self.at.split('/');
        let parts = parts.map(|part| match part.parse::<usize>() {
            Ok(_) => "*",
            Err(_) => part,
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// The error as a message. `root` is the position of the value in the message.
    pub fn message(&self, root: &str) -> String {
        let at = format!("`{root}{}`", self.at);
        match &self.kind {
            ShapeErrorKind::Missing { expected } => format!("{at} is missing; expected {expected}"),
            ShapeErrorKind::Type { expected, found } => {
                format!("{at} is {found}; expected {expected}")
            }
            ShapeErrorKind::Value { expected, found } => {
                format!("{at} is {found}; expected {expected}")
            }
            ShapeErrorKind::Unknown => {
                format!("{at} is not a field of this type; put custom fields into `_meta`")
            }
            ShapeErrorKind::Draft | ShapeErrorKind::DraftVariant => {
                format!("{at} is part of a draft of the protocol, not of version 1")
            }
            ShapeErrorKind::FormerDraft => {
                format!("{at} was part of an earlier draft of the protocol, but never of version 1")
            }
            ShapeErrorKind::Case { right } => {
                format!("{at} has the wrong case; the protocol uses `{right}`")
            }
            ShapeErrorKind::Schema(why) => format!("{at}: {why}"),
        }
    }
}

/// A value for a message, shortened.
pub fn display(value: &Value) -> String {
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
