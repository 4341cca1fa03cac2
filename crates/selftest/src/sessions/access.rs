//! Defects in access control and in error responses.

use axum::http::header::{HOST, HeaderValue, ORIGIN};
use serde_json::json;

use super::tamper::{Asked, Reply, Route};
use super::{Mutant, Tamper, advice};

/// Accepts these requests without a valid token.
fn opened(which: fn(&Asked) -> bool) -> Tamper {
    // The daemon's own check is off, so other requests are rejected here.
    Tamper {
        no_gate: true,
        before: Some(Box::new(move |asked, _, _| {
            let is_in = asked.has_token || which(asked);
            (!is_in).then(|| Reply::error(401, "missing token"))
        })),
        ..Tamper::default()
    }
}

pub fn mutants() -> Vec<Mutant> {
    vec![
        advice(
            "se-gate-open",
            "A46-SEC-02",
            "No request needs a token.",
            || opened(|_| true),
        ),
        advice(
            "se-gate-stream",
            "A46-SEC-02",
            "The stream needs no token.",
            || opened(|asked| asked.route == Route::Stream),
        ),
        advice(
            "se-gate-tools",
            "A46-SEC-02",
            "The MCP tools need no token.",
            || opened(|asked| asked.route == Route::Mcp),
        ),
        advice(
            "se-gate-any",
            "A46-SEC-02",
            "Any token is accepted.",
            || opened(|asked| asked.headers.contains_key("authorization")),
        ),
        advice(
            "se-gate-kill",
            "A46-SEC-02",
            "Killing a session needs no token.",
            || opened(|asked| asked.route == Route::Kill),
        ),
        advice(
            "se-no-adapter-silent",
            "A46-COMPAT-03",
            "A 501 response has no body.",
            || {
                Tamper::before(|asked, _, _| {
                    (asked.route == Route::Spawn).then(|| Reply::new(501, json!({})))
                })
            },
        ),
        advice(
            "se-host-any",
            "SES-01",
            "Any Host header is accepted.",
            || {
                Tamper::before(|asked, _, _| {
                    asked
                        .headers
                        .insert(HOST, HeaderValue::from_static("localhost"));
                    None
                })
            },
        ),
        advice(
            "se-origin-any",
            "SES-01",
            "Any Origin header is accepted.",
            || {
                Tamper::before(|asked, _, _| {
                    asked.headers.remove(ORIGIN);
                    None
                })
            },
        ),
        advice(
            "se-unknown-500",
            "SES-02",
            "An unknown session causes a server error.",
            || {
                Tamper::after(|_, reply, _| {
                    if reply.status == 404 {
                        reply.status = 500;
                    }
                })
            },
        ),
        advice(
            "se-unknown-ok",
            "SES-02",
            "A prompt to an unknown session is accepted.",
            || {
                Tamper::after(|asked, reply, _| {
                    if asked.route == Route::Prompt && reply.status == 404 {
                        *reply = Reply::new(200, json!({"ok": true, "id": asked.id}));
                    }
                })
            },
        ),
        advice(
            "se-bad-500",
            "SES-03",
            "An invalid request causes a server error.",
            || {
                Tamper::after(|_, reply, _| {
                    if reply.status == 400 {
                        reply.status = 500;
                    }
                })
            },
        ),
        advice(
            "se-strict",
            "SES-04",
            "A request with an unknown member is rejected.",
            || {
                Tamper::before(|asked, _, _| {
                    let odd = asked.body.get("somethingOfTomorrow").is_some();
                    odd.then(|| Reply::error(400, "unknown field"))
                })
            },
        ),
        advice(
            "se-json-as-text",
            "SES-05",
            "JSON is sent as text/plain.",
            || {
                Tamper::after(|asked, reply, _| {
                    if asked.route != Route::Mcp {
                        reply.media = "text/plain";
                    }
                })
            },
        ),
    ]
}
