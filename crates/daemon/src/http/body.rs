//! Reads request bodies: JSON of a known type, with limits on size and time. Type errors name the
//! field.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::AppState;
use super::guard::check_still_valid;
use crate::error::ApiError;

/// Maximum size of a body in bytes.
pub const MAX_BYTES: usize = 4 << 20;
/// Limit in bytes for draining a rejected body, so that the client sees the response.
const DRAIN_LIMIT: usize = 32 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Parses the body as a `T`. Unknown members are ignored.
pub async fn read<T: DeserializeOwned>(request: Request, within: Duration) -> Result<T, ApiError> {
    read_up_to(MAX_BYTES, request, within).await
}

/// Like `read`, with another limit in bytes.
pub async fn read_up_to<T: DeserializeOwned>(
    max: usize,
    request: Request,
    within: Duration,
) -> Result<T, ApiError> {
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        drain(body).await;
        return Err(
            ApiError::new(415, "unsupported_media_type", "the body must be JSON")
                .hint("send the header `Content-Type: application/json`"),
        );
    }
    parse(&bytes(&parts, body, max, within).await?)
}

/// Middleware for handlers that read bodies themselves: passes the whole body, within the limits.
pub async fn buffer(State(state): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match bytes(&parts, body, MAX_BYTES, state.timeouts.body).await {
        Ok(bytes) => next.run(Request::from_parts(parts, bytes.into())).await,
        Err(error) => error.into_response(),
    }
}

/// The whole body of a request whose token is still valid after it.
async fn bytes(parts: &Parts, body: Body, max: usize, within: Duration) -> Result<Bytes, ApiError> {
    let bytes = tokio::time::timeout(within, collect(&parts.headers, body, max));
    let bytes = bytes.await.map_err(|_| {
        ApiError::new(
            408,
            "body_timeout",
            format!("the body was not received within {} s", within.as_secs()),
        )
        .hint("send the complete body")
    })??;
    check_still_valid(&parts.extensions)?;
    Ok(bytes)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    kind.is_some_and(|kind| {
        kind.eq_ignore_ascii_case("application/json")
            || (kind.starts_with("application/") && kind.ends_with("+json"))
    })
}

async fn collect(headers: &HeaderMap, mut body: Body, max: usize) -> Result<Bytes, ApiError> {
    let content_length = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok());
    let content_length = content_length
        .and_then(|v| v.parse::<u64>().ok())
        .unwrap_or(0);
    if content_length > max as u64 {
        drain(body).await;
        return Err(too_large(max));
    }
    let mut all = Vec::with_capacity(usize::try_from(content_length).unwrap_or(0));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::bad_request(format!("the body was cut off: {error}"))
                .hint("send the complete body")
        })?;
        if let Ok(data) = frame.into_data() {
            if all.len() + data.len() > max {
                drain(body).await;
                return Err(too_large(max));
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(Bytes::from(all))
}

/// Drains a body. A client that is still sending would otherwise see a broken connection instead of
/// the error.
async fn drain(mut body: Body) {
    let draining = async {
        let mut drained = 0;
        while let Some(Ok(frame)) = body.frame().await {
            drained += frame.data_ref().map_or(0, Bytes::len);
            if drained > DRAIN_LIMIT {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, draining).await;
}

fn too_large(max: usize) -> ApiError {
    let (size, hint) = match max {
        MAX_BYTES => (
            format!("{} MiB", MAX_BYTES >> 20),
            "put large content into a file in the workspace, and name the file in the prompt",
        ),
        max => (format!("{max} bytes"), "send only the documented fields"),
    };
    let what = format!("the body is larger than {size}");
    ApiError::new(413, "body_too_large", what).hint(hint)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize::<_, T>(&mut reader);
    let value = read.map_err(|error| {
        let path = error.path().to_string();
        parse_error(&path, error.inner(), bytes)
    })?;
    reader
        .end()
        .map_err(|error| parse_error(".", &error, bytes))?;
    Ok(value)
}

fn parse_error(path: &str, error: &serde_json::Error, bytes: &[u8]) -> ApiError {
    use serde_json::error::Category;
    let at = serde_json::json!({ "line": error.line(), "column": error.column() });
    let text = error.to_string();
    // The position is in `details` and at the start of the message.
    let why = text.split(" at line ").next().unwrap_or(&text);
    if error.classify() != Category::Data {
        let what = match bytes.is_empty() {
            true => "the body is empty, expected JSON".to_owned(),
            false => format!(
                "the body is not valid JSON: line {}, column {}: {why}",
                error.line(),
                error.column()
            ),
        };
        return ApiError::new(400, "bad_json", what)
            .hint("send one JSON object")
            .details(at);
    }
    let (what, details) = match path {
        "." => (format!("invalid body: {why}"), at),
        path => {
            let mut details = at;
            details["field"] = path.into();
            (format!("`{path}`: {why}"), details)
        }
    };
    ApiError::bad_request(what)
        .hint("see GET /openapi.json for the type of every field")
        .details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SpawnRequest;

    fn refusal(text: &str) -> ApiError {
        parse::<SpawnRequest>(text.as_bytes()).expect_err(text)
    }

    #[test]
    fn errors_name_their_field_and_position() {
        let read: SpawnRequest = parse(br#"{"adapter":"x","cwd":null,"later":[1]}"#).expect("read");
        assert_eq!((read.adapter.as_str(), read.cwd), ("x", None));
        let field = refusal("{\"adapter\":\"x\",\n\"cwd\":5}");
        assert_eq!((field.status, field.code), (400, "bad_request"));
        assert_eq!(field.details["field"], "cwd");
        assert_eq!(field.details["line"], 2);
        assert!(
            field
                .message
                .starts_with("`cwd`: invalid type: integer `5`")
        );
        let json = refusal("{\"adapter\":\n  oops}");
        assert_eq!((json.code, &json.details["line"]), ("bad_json", &2.into()));
        assert_eq!(refusal("").message, "the body is empty, expected JSON");
        assert_eq!(refusal("{} {}").code, "bad_request");
        assert_eq!(refusal("{\"adapter\":\"x\"} x").code, "bad_json");
        let missing = refusal("{}");
        assert!(
            missing.message.contains("missing field `adapter`"),
            "{missing}"
        );
        assert!(refusal("[]").message.contains("invalid body"));
        assert_eq!(refusal("{\"adapter\":\"x\",\"adapter\":\"y\"}").status, 400);
        // Deeply nested lists where an object is expected.
        assert_eq!(refusal(&"[".repeat(100_000)).status, 400);
        let deep = format!("{{\"x\":{}", "[".repeat(100_000));
        assert_eq!(refusal(&deep).code, "bad_json");
    }
}
