//! Defects in access control and in error responses.

use axum::http::header::{HOST, HeaderValue, ORIGIN};
use serde_json::json;

use super::changes::{ClientRequest, HostResponse, Route};
use super::{HostChanges, Mutant, recommendation};

/// Accepts these requests without a valid token.
fn accept_without_token(which: fn(&ClientRequest) -> bool) -> HostChanges {
    // The daemon's own check is off, so other requests are rejected here.
    HostChanges {
        accepts_all: true,
        before: Some(Box::new(move |incoming, _, _| {
            let is_in = incoming.has_token || which(incoming);
            (!is_in).then(|| HostResponse::error(401, "missing token"))
        })),
        ..HostChanges::default()
    }
}

pub fn mutants() -> Vec<Mutant> {
    vec![
        recommendation(
            "se-gate-open",
            "A46-SEC-02",
            "No request needs a token.",
            || accept_without_token(|_| true),
        ),
        recommendation(
            "se-gate-stream",
            "A46-SEC-02",
            "The stream needs no token.",
            || accept_without_token(|incoming| incoming.route == Route::Stream),
        ),
        recommendation(
            "se-gate-tools",
            "A46-SEC-02",
            "The MCP tools need no token.",
            || accept_without_token(|incoming| incoming.route == Route::Mcp),
        ),
        recommendation(
            "se-gate-any",
            "A46-SEC-02",
            "Any token is accepted.",
            || accept_without_token(|incoming| incoming.headers.contains_key("authorization")),
        ),
        recommendation(
            "se-gate-kill",
            "A46-SEC-02",
            "Killing a session needs no token.",
            || accept_without_token(|incoming| incoming.route == Route::Kill),
        ),
        recommendation(
            "se-no-adapter-silent",
            "A46-COMPAT-03",
            "A 501 response has no body.",
            || {
                HostChanges::before(|incoming, _, _| {
                    (incoming.route == Route::Spawn).then(|| HostResponse::new(501, json!({})))
                })
            },
        ),
        recommendation(
            "se-host-any",
            "SES-01",
            "Any Host header is accepted.",
            || {
                HostChanges::before(|incoming, _, _| {
                    incoming
                        .headers
                        .insert(HOST, HeaderValue::from_static("localhost"));
                    None
                })
            },
        ),
        recommendation(
            "se-origin-any",
            "SES-01",
            "Any Origin header is accepted.",
            || {
                HostChanges::before(|incoming, _, _| {
                    incoming.headers.remove(ORIGIN);
                    None
                })
            },
        ),
        recommendation(
            "se-unknown-500",
            "SES-02",
            "An unknown session causes a server error.",
            || {
                HostChanges::after(|_, reply, _| {
                    if reply.status == 404 {
                        reply.status = 500;
                    }
                })
            },
        ),
        recommendation(
            "se-unknown-ok",
            "SES-02",
            "A prompt to an unknown session is accepted.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if incoming.route == Route::Prompt && reply.status == 404 {
                        *reply = HostResponse::new(200, json!({"ok": true, "id": incoming.id}));
                    }
                })
            },
        ),
        recommendation(
            "se-bad-500",
            "SES-03",
            "An invalid request causes a server error.",
            || {
                HostChanges::after(|_, reply, _| {
                    if reply.status == 400 {
                        reply.status = 500;
                    }
                })
            },
        ),
        recommendation(
            "se-strict",
            "SES-04",
            "A request with an unknown member is rejected.",
            || {
                HostChanges::before(|incoming, _, _| {
                    let odd = incoming.body.get("somethingOfTomorrow").is_some();
                    odd.then(|| HostResponse::error(400, "unknown field"))
                })
            },
        ),
        recommendation(
            "se-json-as-text",
            "SES-05",
            "JSON is sent as text/plain.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if incoming.route != Route::Mcp {
                        reply.media = "text/plain";
                    }
                })
            },
        ),
    ]
}
