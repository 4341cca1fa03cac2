//! Responses of `/mcp`. Errors are always JSON, with a hint. The MCP library mostly responds in plain
//! text, which is converted here. Status codes are those that the protocol defines.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};

use super::{body, response};
use crate::error::ApiError;

/// Maximum size in bytes of the library's error text.
const MAX_LIBRARY_TEXT: usize = 64 << 10;
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// Error codes of JSON-RPC 2.0.
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL: i64 = -32603;

pub async fn convert_errors(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    // The body is complete and within the limits.
    let bytes = to_bytes(body, body::MAX_BYTES).await.unwrap_or_default();
    let mut inner = Request::new(Body::from(bytes.clone()));
    *inner.method_mut() = parts.method.clone();
    *inner.uri_mut() = parts.uri.clone();
    *inner.headers_mut() = parts.headers.clone();
    *inner.extensions_mut() = parts.extensions.clone();
    let mut response = next.run(inner).await;
    if parts.method == Method::DELETE && response.status() == StatusCode::ACCEPTED {
        // The session has ended. Clients report 202, which says that it may end later, as an error.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    match response.status().is_client_error() || response.status().is_server_error() {
        true => convert_error(&parts, &bytes, response).await,
        false => response,
    }
}

async fn convert_error(request: &Parts, bytes: &Bytes, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let library_text = to_bytes(body, MAX_LIBRARY_TEXT).await.unwrap_or_default();
    let mut converted = match serde_json::from_slice::<Value>(&library_text) {
        Ok(message) if message["error"].is_object() => {
            response::json(parts.status, &with_a_hint(message))
        }
        _ => {
            let library_text = String::from_utf8_lossy(&library_text);
            error_response(request, bytes, parts.status, &library_text)
        }
    };
    for (name, value) in &parts.headers {
        if !converted.headers().contains_key(name) && !name.as_str().starts_with("content-") {
            converted.headers_mut().insert(name, value.clone());
        }
    }
    converted
}

/// For a POST, a JSON-RPC error without a request id. For other methods, an `ApiError`.
fn error_response(
    request: &Parts,
    bytes: &Bytes,
    status: StatusCode,
    library_text: &str,
) -> Response {
    let (code, error) = error_for_request(request, bytes, status, library_text);
    if request.method != Method::POST {
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
    response::json(status, &message)
}

/// Determines the error from the request, not from the library's text.
fn error_for_request(
    request: &Parts,
    bytes: &Bytes,
    status: StatusCode,
    library_text: &str,
) -> (i64, ApiError) {
    let header = |name: &str| request.headers.get(name).and_then(|v| v.to_str().ok());
    let refused = |code, message: &str| ApiError::new(status.as_u16(), code, message);
    let has_session = header(SESSION).is_some();
    let error = match status.as_u16() {
        400 if !is_known(request) => refused(
            "mcp_version_unsupported",
            "unsupported `MCP-Protocol-Version`",
        )
        .hint(format!("send one of {}", versions().join(", "))),
        400 if !has_session => refused("mcp_session_missing", "`Mcp-Session-Id` is missing").hint(
            "send `initialize` first, then the `Mcp-Session-Id` of its response with each message",
        ),
        404 if has_session => refused(
            "mcp_session_unknown",
            "unknown MCP session: it has ended, or the host was restarted",
        )
        .hint("send `initialize` without `Mcp-Session-Id` to open a new one; agent sessions are not affected"),
        405 => refused("method_not_allowed", &format!("{} is not allowed for `/mcp`", request.method))
            .hint("POST a message; see the `Allow` header for other methods"),
        406 => refused("not_acceptable", "`Accept` does not include the response type").hint(match request.method {
            Method::POST => "send `Accept: application/json, text/event-stream`",
            _ => "send `Accept: text/event-stream`",
        }),
        415 if !header(CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("application/json")) => {
            refused("unsupported_media_type", "the body must be JSON")
                .hint("send the header `Content-Type: application/json`")
        }
        415 => return invalid_message_error(status, bytes),
        500.. => return (INTERNAL, response::internal(library_text)),
        _ => refused("bad_request", library_text).hint(
            "send one JSON-RPC 2.0 message that is valid in the revision of `MCP-Protocol-Version`",
        ),
    };
    (INVALID_REQUEST, error)
}

/// The error for a body that the library could not parse.
fn invalid_message_error(status: StatusCode, bytes: &Bytes) -> (i64, ApiError) {
    let refused = |code, message: String| ApiError::new(status.as_u16(), code, message);
    match serde_json::from_slice::<Value>(bytes) {
        Err(error) => (
            PARSE_ERROR,
            refused("bad_json", format!("the body is not valid JSON: {error}"))
                .hint("send one JSON object"),
        ),
        Ok(Value::Array(_)) => (
            INVALID_REQUEST,
            refused("batch", "batches are not supported".to_owned())
                .hint("send each message in its own request"),
        ),
        Ok(_) => (
            INVALID_REQUEST,
            refused(
                "no_message",
                "the body is not a JSON-RPC 2.0 message".to_owned(),
            )
            .hint("send `jsonrpc` \"2.0\", a `method`, and an `id` if you expect a response"),
        ),
    }
}

fn versions() -> Vec<&'static str> {
    let known = ProtocolVersion::KNOWN_VERSIONS.iter();
    known.map(ProtocolVersion::as_str).collect()
}

fn is_known(request: &Parts) -> bool {
    let version = request.headers.get(VERSION);
    version.is_none_or(|named| {
        versions()
            .iter()
            .any(|known| known.as_bytes() == named.as_bytes())
    })
}

/// Adds a hint to a JSON-RPC error of the library.
fn with_a_hint(mut message: Value) -> Value {
    let error = &mut message["error"];
    let has_hint = error["hint"].is_string() || error["data"]["hint"].is_string();
    let hint = match error["code"].as_i64() {
        _ if has_hint => return message,
        Some(METHOD_NOT_FOUND) => "this server supports `tools/list`, `tools/call` and `ping`",
        Some(INVALID_PARAMS) => "see `tools/list` for the schema of each tool's arguments",
        _ => "send a message that is valid in the revision of `MCP-Protocol-Version`",
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
