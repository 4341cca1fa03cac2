//! Variants of the ids of sessions, tool calls, messages and requests.

use serde_json::{Value, json};

use super::{AgentVariant, with_tamper};
use crate::mutants::Tamper;
use crate::mutants::tools::*;

pub fn variants() -> Vec<AgentVariant> {
    vec![
        with_tamper(
            "unicode-ids",
            "Ids contain letters of many scripts.",
            Tamper::both(
                |_, _, message| send(renamed(message, |id| format!("{UNICODE}{id}"))),
                |_, message| {
                    pass(known(message, |id| {
                        Some(id.strip_prefix(UNICODE)?.to_owned())
                    }))
                },
            ),
        ),
        with_tamper(
            "long-ids",
            "Ids have four thousand characters.",
            Tamper::both(
                |_, _, message| send(renamed(message, |id| format!("{}{id}", filling()))),
                |_, message| {
                    pass(known(message, |id| {
                        Some(id.trim_start_matches('x').to_owned())
                    }))
                },
            ),
        ),
        with_tamper(
            "number-ids",
            "Ids are strings of digits.",
            Tamper::both(
                |_, _, message| send(renamed(message, |id| digits(&id))),
                |_, message| pass(known(message, letters)),
            ),
        ),
        with_tamper(
            "odd-ids",
            "Ids contain quotes, slashes, spaces and braces.",
            Tamper::both(
                |_, _, message| send(renamed(message, |id| format!("{UNUSUAL}{id}"))),
                |_, message| {
                    pass(known(message, |id| {
                        Some(id.strip_prefix(UNUSUAL)?.to_owned())
                    }))
                },
            ),
        ),
        with_tamper(
            "text-request-ids",
            "The ids of the agent's own requests are UUIDs.",
            text_requests(),
        ),
        with_tamper(
            "text-request-ids",
            "The ids of the server's own requests are UUIDs.",
            text_requests(),
        )
        .of_mcp(),
        with_tamper(
            "high-request-ids",
            "The ids of the agent's own requests start at two to the power of 52.",
            Tamper::both(
                |_, _, mut message| {
                    if is_request(&message) {
                        let own = message
                            .get("id")
                            .and_then(Value::as_u64)
                            .unwrap_or_default();
                        set(&mut message, "/id", own + HIGH);
                    }
                    send(message)
                },
                |_, mut message| {
                    let id = message.get("id").and_then(Value::as_u64);
                    if is_reply(&message)
                        && let Some(own) = id.and_then(|id| id.checked_sub(HIGH))
                    {
                        set(&mut message, "/id", own);
                    }
                    pass(message)
                },
            ),
        ),
        with_tamper(
            "no-message-ids",
            "Chunks have no message id.",
            Tamper::outgoing(|_, _, mut message| {
                remove(&mut message, "/params/update/messageId");
                send(message)
            }),
        ),
    ]
}

const UNICODE: &str = "Sitzung-ß-会話-🦊-";
const UNUSUAL: &str = "a \"b\" \\ /../ {c} %20 ";
const HIGH: u64 = 1 << 52;
const UUID: &str = "6f9619ff-8b86-4d01-b42d-";

fn text_requests() -> Tamper {
    Tamper::both(
        |_, _, mut message| {
            if is_request(&message) {
                let own = message
                    .get("id")
                    .and_then(Value::as_u64)
                    .unwrap_or_default();
                set(&mut message, "/id", format!("{UUID}{own:012x}"));
            }
            send(message)
        },
        |_, mut message| {
            let own = text(&message, "/id").strip_prefix(UUID);
            let own = own.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if is_reply(&message)
                && let Some(own) = own
            {
                set(&mut message, "/id", own);
            }
            pass(message)
        },
    )
}

fn filling() -> String {
    "x".repeat(4_000)
}

fn is_reply(message: &Value) -> bool {
    message.get("method").is_none()
}

/// Encodes each byte as three digits.
fn digits(id: &str) -> String {
    id.bytes().map(|byte| format!("{byte:03}")).collect()
}

fn letters(id: &str) -> Option<String> {
    let triples = id.as_bytes().chunks(3).map(|triple| {
        let triple = std::str::from_utf8(triple).ok()?;
        triple.parse::<u8>().ok()
    });
    String::from_utf8(triples.collect::<Option<Vec<u8>>>()?).ok()
}

/// Places of ids in the messages of the agent.
const ID_PATHS: [&str; 6] = [
    "/params/sessionId",
    "/result/sessionId",
    "/params/update/toolCallId",
    "/params/update/messageId",
    "/params/toolCall/toolCallId",
    "/params/elicitationId",
];

/// Renames every id in a message.
fn renamed(mut message: Value, name: impl Fn(String) -> String) -> Value {
    let rename = |path: Option<&mut Value>| {
        if let Some(Value::String(id)) = path {
            *id = name(std::mem::take(id));
        }
    };
    for path in ID_PATHS {
        rename(message.pointer_mut(path));
    }
    each(&mut message, "/result/sessions", |session| {
        rename(session.pointer_mut("/sessionId"));
    });
    message
}

/// Replaces the session id in a client's message with the mock's own id. An unknown id is left
/// unchanged.
fn known(mut message: Value, name: impl Fn(&str) -> Option<String>) -> Value {
    if let Some(path) = message.pointer_mut("/params/sessionId")
        && let Some(own) = path.as_str().and_then(name)
    {
        *path = json!(own);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_can_be_decoded() {
        assert_eq!(letters(&digits("mock-0af")).as_deref(), Some("mock-0af"));
        assert_eq!(letters("999"), None);
        assert_eq!(letters("ß"), None);
    }
}
