//! Classifies raw JSON as a JSON-RPC 2.0 message.

pub use agentproto_text::strict_json::type_name;
use serde_json::{Map, Value};

/// Kind of a message, and what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Kind of the message, guessed if it is not valid.
    pub kind: MessageKind,
    /// Violations of JSON-RPC 2.0.
    pub flaws: Vec<EnvelopeFlaw>,
}

/// Kind of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageKind {
    /// A request.
    Request {
        /// Id of the request.
        id: Value,
        /// Name of the method.
        method: String,
    },
    /// A notification.
    Notification {
        /// Name of the method.
        method: String,
    },
    /// A response.
    Response {
        /// Id of the request, null if it is missing.
        id: Value,
        /// Whether it contains an error.
        is_error: bool,
    },
    /// Anything else.
    Other,
}

/// A violation of JSON-RPC 2.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvelopeFlaw {
    /// The message is not an object, but a value of this type.
    NotAnObject(&'static str),
    /// `jsonrpc` is missing or not "2.0".
    Version(String),
    /// `method` is not a string, but a value of this type.
    Method(&'static str),
    /// The id is not a string, number or null, but a value of this type.
    Id(&'static str),
    /// A response has both `result` and `error`.
    ResultAndError,
    /// A response has neither `result` nor `error`.
    NeitherResultNorError,
    /// A response has no id.
    NoId,
    /// `error` is not an object, or has no integer `code` or no string `message`.
    Error(&'static str),
    /// `params` is not an object or array, but a value of this type.
    Params(&'static str),
    /// A member that JSON-RPC does not define.
    Member(String),
}

impl Envelope {
    /// Classifies a JSON value.
    pub fn of(value: &Value) -> Envelope {
        let Value::Object(object) = value else {
            return Envelope {
                kind: MessageKind::Other,
                flaws: vec![EnvelopeFlaw::NotAnObject(type_name(value))],
            };
        };
        let mut flaws = Vec::new();
        match object.get("jsonrpc") {
            Some(Value::String(version)) if version == "2.0" => {}
            Some(other) => flaws.push(EnvelopeFlaw::Version(other.to_string())),
            None => flaws.push(EnvelopeFlaw::Version("missing".to_owned())),
        }
        let kind = kind(object, &mut flaws);
        for name in object.keys() {
            let known = ["jsonrpc", "id", "method", "params", "result", "error"];
            if !known.contains(&name.as_str()) {
                flaws.push(EnvelopeFlaw::Member(name.clone()));
            }
        }
        Envelope { kind, flaws }
    }
}

fn kind(object: &Map<String, Value>, flaws: &mut Vec<EnvelopeFlaw>) -> MessageKind {
    let id = object.get("id");
    if let Some(id) = id
        && !(id.is_string() || id.is_number() || id.is_null())
    {
        flaws.push(EnvelopeFlaw::Id(type_name(id)));
    }
    let (result, error) = (object.get("result"), object.get("error"));
    match object.get("method") {
        Some(Value::String(method)) => {
            if let Some(params) = object.get("params")
                && !(params.is_object() || params.is_array())
            {
                flaws.push(EnvelopeFlaw::Params(type_name(params)));
            }
            let method = method.clone();
            match id {
                Some(id) => MessageKind::Request {
                    id: id.clone(),
                    method,
                },
                None => MessageKind::Notification { method },
            }
        }
        Some(other) => {
            flaws.push(EnvelopeFlaw::Method(type_name(other)));
            MessageKind::Other
        }
        None if id.is_none() && result.is_none() && error.is_none() => MessageKind::Other,
        None => {
            match (result, error) {
                (Some(_), Some(_)) => flaws.push(EnvelopeFlaw::ResultAndError),
                (None, None) => flaws.push(EnvelopeFlaw::NeitherResultNorError),
                _ => {}
            }
            if let Some(error) = error {
                check_error(error, result.is_some(), flaws);
            }
            if id.is_none() {
                flaws.push(EnvelopeFlaw::NoId);
            }
            MessageKind::Response {
                id: id.cloned().unwrap_or(Value::Null),
                is_error: error.is_some_and(|e| !e.is_null()) || result.is_none(),
            }
        }
    }
}

fn check_error(error: &Value, error_and_result: bool, flaws: &mut Vec<EnvelopeFlaw>) {
    match error {
        // Already reported as a response with both `result` and `error`.
        Value::Null if error_and_result => {}
        Value::Object(error) => {
            let code = error.get("code");
            if !code.is_some_and(|c| c.is_i64() || c.is_u64()) {
                flaws.push(EnvelopeFlaw::Error("`code` is not an integer"));
            }
            if !error.get("message").is_some_and(Value::is_string) {
                flaws.push(EnvelopeFlaw::Error("`message` is not a string"));
            }
        }
        _ => flaws.push(EnvelopeFlaw::Error("it is not an object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_classified() {
        let kind = |value: Value| Envelope::of(&value).kind;
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "a"});
        assert!(matches!(kind(request), MessageKind::Request { .. }));
        let notification = json!({"jsonrpc": "2.0", "method": "a"});
        assert!(matches!(
            kind(notification),
            MessageKind::Notification { .. }
        ));
        let response = json!({"jsonrpc": "2.0", "id": "x", "result": null});
        assert!(matches!(
            kind(response),
            MessageKind::Response {
                is_error: false,
                ..
            }
        ));
        assert_eq!(kind(json!({"jsonrpc": "2.0"})), MessageKind::Other);
    }

    #[test]
    fn flaws_are_reported_and_valid_messages_have_none() {
        let flaws = |value: Value| Envelope::of(&value).flaws;
        assert_eq!(
            flaws(json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
            vec![]
        );
        assert_eq!(flaws(json!([])), vec![EnvelopeFlaw::NotAnObject("a list")]);
        assert_eq!(
            flaws(json!({"id": 1, "result": {}})),
            vec![EnvelopeFlaw::Version("missing".into())]
        );
        assert_eq!(
            flaws(json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": null})),
            vec![EnvelopeFlaw::ResultAndError]
        );
        assert_eq!(
            flaws(json!({"jsonrpc": "2.0", "id": 1})),
            vec![EnvelopeFlaw::NeitherResultNorError]
        );
        assert_eq!(
            flaws(json!({"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "m"}})),
            vec![EnvelopeFlaw::Error("`code` is not an integer")]
        );
        assert_eq!(
            flaws(json!({"jsonrpc": "2.0", "id": 1, "result": 1, "x": 2})),
            vec![EnvelopeFlaw::Member("x".into())]
        );
    }
}
