//! Builds responses: JSON, and `ApiError` for every error.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::ApiError;

/// A JSON response with a status.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => {
            let kind = HeaderValue::from_static("application/json");
            (status, [(CONTENT_TYPE, kind)], bytes).into_response()
        }
        Err(error) => internal(&error.to_string()).into_response(),
    }
}

pub fn ok(value: &impl Serialize) -> Response {
    json(StatusCode::OK, value)
}

pub fn internal(why: &str) -> ApiError {
    ApiError::new(500, "internal", format!("internal error: {why}")).hint("please report it")
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = json(status, &self.to_json());
        let headers = response.headers_mut();
        match self.status {
            401 => {
                let realm = HeaderValue::from_static("Bearer realm=\"agentproto\"");
                headers.insert(WWW_AUTHENTICATE, realm);
            }
            429 | 503 => {
                let wait = self.retry_after.map_or(1, |wait| wait.as_secs());
                headers.insert(RETRY_AFTER, HeaderValue::from(wait));
            }
            _ => {}
        }
        response
    }
}

/// Finishes every response: disables caching and content sniffing, and converts errors of other
/// layers to `ApiError`.
pub async fn finish(request: Request, next: Next) -> Response {
    let is_api = !request.uri().path().starts_with("/mcp");
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = next.run(request).await;
    let kind = response.headers().get(CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if response.status().as_u16() >= 400 && !is_json && is_api {
        let (parts, _) = response.into_parts();
        let error = error_for_status(parts.status, &method, &path);
        let mut typed = error.into_response();
        for (name, value) in &parts.headers {
            if !typed.headers().contains_key(name) && !name.as_str().starts_with("content-") {
                typed.headers_mut().insert(name, value.clone());
            }
        }
        response = typed;
    }
    if method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    let headers = response.headers_mut();
    for (name, value) in [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        let name = HeaderName::from_static(name);
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

fn error_for_status(status: StatusCode, method: &Method, path: &str) -> ApiError {
    let path: String = path.chars().take(128).collect();
    match status.as_u16() {
        404 => ApiError::new(404, "not_found", format!("no route `{path}`"))
            .hint("GET /openapi.json lists all routes"),
        405 => ApiError::new(
            405,
            "method_not_allowed",
            format!("{method} is not allowed for `{path}`"),
        )
        .hint("see the `Allow` header for the allowed methods"),
        400 => ApiError::bad_request(format!("invalid path `{path}`"))
            .hint("use UTF-8 with percent-encoding"),
        other => ApiError::new(
            other,
            "refused",
            status.canonical_reason().unwrap_or("refused"),
        ),
    }
}
