//! What is wrong with who is let in, and with refusals.

use axum::http::header::{HOST, HeaderValue, ORIGIN};
use serde_json::json;

use super::tamper::{Asked, Reply, Route};
use super::{Mutant, Tamper, advice};

/// Lets these in, token or not.
fn opened(which: fn(&Asked) -> bool) -> Tamper {
    // The gate is ours now: others are kept out here.
    Tamper {
        no_gate: true,
        before: Some(Box::new(move |asked, _, _| {
            let is_in = asked.has_token || which(asked);
            (!is_in).then(|| Reply::error(401, "who are you?"))
        })),
        ..Tamper::default()
    }
}

pub fn mutants() -> Vec<Mutant> {
    vec![
        advice(
            "se-gate-open",
            "A46-SEC-02",
            "Nobody needs a token.",
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
            "The tools need no token.",
            || opened(|asked| asked.route == Route::Mcp),
        ),
        advice("se-gate-any", "A46-SEC-02", "Any token will do.", || {
            opened(|asked| asked.headers.contains_key("authorization"))
        }),
        advice("se-gate-kill", "A46-SEC-02", "Everybody may kill.", || {
            opened(|asked| asked.route == Route::Kill)
        }),
        advice(
            "se-no-adapter-silent",
            "A46-COMPAT-03",
            "501 comes without a word.",
            || {
                Tamper::before(|asked, _, _| {
                    (asked.route == Route::Spawn).then(|| Reply::new(501, json!({})))
                })
            },
        ),
        advice("se-host-any", "SES-01", "Any Host is served.", || {
            Tamper::before(|asked, _, _| {
                asked
                    .headers
                    .insert(HOST, HeaderValue::from_static("localhost"));
                None
            })
        }),
        advice("se-origin-any", "SES-01", "Any Origin is served.", || {
            Tamper::before(|asked, _, _| {
                asked.headers.remove(ORIGIN);
                None
            })
        }),
        advice(
            "se-unknown-500",
            "SES-02",
            "An unknown session breaks the host.",
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
            "A prompt to an unknown session is taken.",
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
            "A request that makes no sense breaks the host.",
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
            "A member that is not known is refused.",
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
