//! What `/mcp` refuses: always JSON, with a next step. The library behind it answers in words of
//! its own, and mostly in plain text; here they get a shape. Statuses stay as the protocol has
//! them.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};

use super::{answer, body};
use crate::error::ApiError;

/// Of what the library says, at the most.
const MOST_SAID: usize = 64 << 10;
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// Codes of JSON-RPC 2.0.
const NO_JSON: i64 = -32700;
const NO_REQUEST: i64 = -32600;
const NO_METHOD: i64 = -32601;
const NO_PARAMETERS: i64 = -32602;
const INTERNAL: i64 = -32603;

pub async fn typed(request: Request, next: Next) -> Response {
    let (asked, body) = request.into_parts();
    // It comes whole, and within our limits.
    let bytes = to_bytes(body, body::MOST_BYTES).await.unwrap_or_default();
    let mut inner = Request::new(Body::from(bytes.clone()));
    *inner.method_mut() = asked.method.clone();
    *inner.uri_mut() = asked.uri.clone();
    *inner.headers_mut() = asked.headers.clone();
    *inner.extensions_mut() = asked.extensions.clone();
    let response = next.run(inner).await;
    match response.status().is_client_error() || response.status().is_server_error() {
        true => shaped(&asked, &bytes, response).await,
        false => response,
    }
}

async fn shaped(asked: &Parts, bytes: &Bytes, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let said = to_bytes(body, MOST_SAID).await.unwrap_or_default();
    let mut told = match serde_json::from_slice::<Value>(&said) {
        Ok(message) if message["error"].is_object() => {
            answer::json(parts.status, &with_a_hint(message))
        }
        _ => {
            let said = String::from_utf8_lossy(&said);
            refusal(asked, bytes, parts.status, &said)
        }
    };
    for (name, value) in &parts.headers {
        if !told.headers().contains_key(name) && !name.as_str().starts_with("content-") {
            told.headers_mut().insert(name, value.clone());
        }
    }
    told
}

/// To a message, an error of JSON-RPC that belongs to no request; to all else, one of ours.
fn refusal(asked: &Parts, bytes: &Bytes, status: StatusCode, said: &str) -> Response {
    let (code, error) = named(asked, bytes, status, said);
    if asked.method != Method::POST {
        return error.into_response();
    }
    let message = json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {
            "code": code,
            "message": error.message,
            "data": { "code": error.code, "hint": error.hint },
        },
    });
    answer::json(status, &message)
}

/// By what was asked, not by the library's words.
fn named(asked: &Parts, bytes: &Bytes, status: StatusCode, said: &str) -> (i64, ApiError) {
    let header = |name: &str| asked.headers.get(name).and_then(|v| v.to_str().ok());
    let refused = |code, message: &str| ApiError::new(status.as_u16(), code, message);
    let has_session = header(SESSION).is_some();
    let error = match status.as_u16() {
        400 if !is_known(asked) => refused(
            "mcp_version_unsupported",
            "`MCP-Protocol-Version` names no revision that is spoken here",
        )
        .hint(format!("send one of {}", versions().join(", "))),
        400 if !has_session => refused("mcp_session_missing", "`Mcp-Session-Id` is missing").hint(
            "send `initialize` first, then the `Mcp-Session-Id` of its answer with each message",
        ),
        404 if has_session => refused(
            "mcp_session_unknown",
            "there is no MCP session of that id: it was ended, or the host was started anew",
        )
        .hint("send `initialize` without `Mcp-Session-Id` for a new one; agent sessions are not lost with it"),
        405 => refused("method_not_allowed", &format!("`/mcp` does not take {} here", asked.method))
            .hint("POST a message; the header `Allow` names what else it takes"),
        406 => refused("not_acceptable", "`Accept` does not name what comes back").hint(match asked.method {
            Method::POST => "send `Accept: application/json, text/event-stream`",
            _ => "send `Accept: text/event-stream`",
        }),
        415 if !header(CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("application/json")) => {
            refused("unsupported_media_type", "the body has to be JSON")
                .hint("send the header `Content-Type: application/json`")
        }
        415 => return no_message(status, bytes),
        500.. => return (INTERNAL, answer::internal(said)),
        _ => refused("bad_request", said).hint(
            "send one message of JSON-RPC 2.0, as the revision in `MCP-Protocol-Version` has it",
        ),
    };
    (NO_REQUEST, error)
}

/// A body that the library could not read.
fn no_message(status: StatusCode, bytes: &Bytes) -> (i64, ApiError) {
    let refused = |code, message: String| ApiError::new(status.as_u16(), code, message);
    match serde_json::from_slice::<Value>(bytes) {
        Err(error) => (
            NO_JSON,
            refused("bad_json", format!("the body is no JSON: {error}"))
                .hint("send one JSON object"),
        ),
        Ok(Value::Array(_)) => (
            NO_REQUEST,
            refused("batch", "batches are not taken".to_owned())
                .hint("send each message in a request of its own"),
        ),
        Ok(_) => (
            NO_REQUEST,
            refused(
                "no_message",
                "the body is no message of JSON-RPC 2.0".to_owned(),
            )
            .hint("send `jsonrpc` \"2.0\", a `method`, and an `id` where an answer is wanted"),
        ),
    }
}

fn versions() -> Vec<&'static str> {
    let known = ProtocolVersion::KNOWN_VERSIONS.iter();
    known.map(ProtocolVersion::as_str).collect()
}

fn is_known(asked: &Parts) -> bool {
    let version = asked.headers.get(VERSION);
    version.is_none_or(|named| {
        versions()
            .iter()
            .any(|known| known.as_bytes() == named.as_bytes())
    })
}

/// An error that the library tells as JSON-RPC has it, and without a next step.
fn with_a_hint(mut message: Value) -> Value {
    let error = &mut message["error"];
    let has_hint = error["hint"].is_string() || error["data"]["hint"].is_string();
    let hint = match error["code"].as_i64() {
        _ if has_hint => return message,
        Some(NO_METHOD) => "this server has `tools/list`, `tools/call` and `ping`",
        Some(NO_PARAMETERS) => "`tools/list` has the schema of each tool's arguments",
        _ => "send what the message says, as the revision in `MCP-Protocol-Version` has it",
    };
    match &mut error["data"] {
        Value::Object(data) => {
            data.insert("hint".to_owned(), json!(hint));
        }
        data @ Value::Null => *data = json!({ "hint": hint }),
        _ => {}
    }
    message
}
