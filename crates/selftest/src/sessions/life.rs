//! Defects in the start and the end of sessions.

use axum::http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::json;

use super::changes::{HostResponse, Route};
use super::{HostChanges, Mutant, mutant, recommendation, remove};

fn done(id: &str) -> HostResponse {
    HostResponse::new(200, json!({"ok": true, "id": id}))
}

pub fn mutants() -> Vec<Mutant> {
    vec![
        mutant(
            "se-never-running",
            "A46-STATUS-01",
            "A session stays `starting`.",
            || {
                HostChanges::record(|s| {
                    if s["status"] == "running" {
                        s["status"] = json!("starting");
                    }
                })
            },
        ),
        mutant(
            "se-running-early",
            "A46-STATUS-01",
            "The status is `running` before the agent is ready.",
            || {
                HostChanges::before(|incoming, state, _| {
                    let is_first =
                        incoming.route == Route::Prompt && state.count("prompt", &incoming.id) == 0;
                    is_first.then(|| HostResponse::error(409, "not ready yet"))
                })
            },
        ),
        mutant(
            "se-kill-mild",
            "A46-STATUS-04",
            "A kill is confirmed, but the session continues.",
            || {
                HostChanges::before(|incoming, _, _| {
                    (incoming.route == Route::Kill).then(|| done(&incoming.id))
                })
            },
        ),
        mutant(
            "se-kill-exited",
            "A46-STATUS-04",
            "A killed session has the status `exited`.",
            || {
                HostChanges::record(|s| {
                    if s["status"] == "killed" {
                        s["status"] = json!("exited");
                    }
                })
            },
        ),
        mutant(
            "se-kill-silent",
            "A46-HTTP-06",
            "The response to a kill has no `ok`.",
            || HostChanges::of(Route::Kill, |reply| remove(&mut reply.body, "ok")),
        ),
        mutant(
            "se-kill-empty",
            "A46-HTTP-06",
            "The response to a kill is empty.",
            || {
                HostChanges::of(Route::Kill, |reply| {
                    reply.status = 204;
                    reply.text = Some(String::new());
                })
            },
        ),
        mutant(
            "se-kill-hangs",
            "A46-HTTP-06",
            "A kill gets no response.",
            || HostChanges {
                delayed_until_turn_end: Some(|incoming| incoming.route == Route::Prompt),
                before: Some(Box::new(|incoming, _, _| {
                    // Turn the kill into a prompt whose turn does not end.
                    if incoming.route == Route::Kill {
                        incoming.route = Route::Prompt;
                        incoming.body = json!({"prompt": "be slow"});
                        let json = HeaderValue::from_static("application/json");
                        incoming.headers.insert(CONTENT_TYPE, json);
                    }
                    None
                })),
                ..HostChanges::default()
            },
        ),
        mutant(
            "se-end-moves",
            "A46-STATUS-09",
            "The status of a killed session changes to `exited` later.",
            || {
                HostChanges::after(|incoming, reply, state| {
                    let is_killed =
                        incoming.route == Route::Show && reply.body["status"] == "killed";
                    if is_killed && state.count("killed", &incoming.id) > 0 {
                        reply.body["status"] = json!("exited");
                    }
                })
            },
        ),
        mutant(
            "se-end-wakes",
            "A46-STATUS-09",
            "A killed session is `running` again after a prompt.",
            || {
                HostChanges::after(|incoming, reply, state| {
                    if incoming.route == Route::Prompt && reply.status >= 300 {
                        state.count("woken", &incoming.id);
                    }
                    if incoming.route == Route::Show && state.has("woken", &incoming.id) {
                        reply.body["status"] = json!("running");
                    }
                })
            },
        ),
        mutant(
            "se-end-takes",
            "A46-STATUS-09",
            "A killed session accepts prompts.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if incoming.route == Route::Prompt && reply.status >= 300 {
                        *reply = done(&incoming.id);
                    }
                })
            },
        ),
        recommendation(
            "se-delete-mild",
            "A46-STATUS-05",
            "DELETE removes the session, but the agent keeps running.",
            || {
                HostChanges::before(|incoming, state, registry| {
                    let lives = registry
                        .get(&incoming.id)
                        .is_ok_and(|s| s.status.is_alive());
                    if incoming.route == Route::Forget && lives {
                        state.count("forgotten", &incoming.id);
                        return Some(done(&incoming.id));
                    }
                    let is_gone =
                        incoming.route == Route::Show && state.has("forgotten", &incoming.id);
                    is_gone.then(|| HostResponse::error(404, "no such session"))
                })
            },
        ),
        mutant(
            "se-delete-refused",
            "A46-STATUS-05",
            "A live session cannot be deleted.",
            || {
                HostChanges::before(|incoming, _, registry| {
                    let lives = registry
                        .get(&incoming.id)
                        .is_ok_and(|s| s.status.is_alive());
                    (incoming.route == Route::Forget && lives)
                        .then(|| HostResponse::error(409, "kill it first"))
                })
            },
        ),
        mutant(
            "se-delete-error",
            "A46-STATUS-05",
            "A deleted live session is kept with the status `error`.",
            || HostChanges {
                before: Some(Box::new(|incoming, state, _| {
                    if incoming.route == Route::Forget {
                        state.count("deleted", &incoming.id);
                        incoming.route = Route::Kill;
                        incoming.method = axum::http::Method::POST;
                    }
                    None
                })),
                after: Some(Box::new(|incoming, reply, state| {
                    if incoming.route == Route::Show && state.has("deleted", &incoming.id) {
                        reply.body["status"] = json!("error");
                    }
                })),
                ..HostChanges::default()
            },
        ),
        mutant(
            "se-forget-keeps",
            "A46-HTTP-07",
            "DELETE is confirmed, but the session is kept.",
            || {
                HostChanges::before(|incoming, _, _| {
                    (incoming.route == Route::Forget).then(|| done(&incoming.id))
                })
            },
        ),
        mutant(
            "se-forget-returns",
            "A46-HTTP-07",
            "A deleted session comes back with its late output.",
            || HostChanges {
                before: Some(Box::new(|incoming, state, registry| {
                    if incoming.route == Route::Forget
                        && let Ok(record) = registry.get(&incoming.id)
                    {
                        state.keep(record);
                        return None;
                    }
                    let is_late = incoming.route == Route::Show
                        && state.kept(&incoming.id).is_some()
                        && state.count("read", &incoming.id) > 0;
                    let record = state.kept(&incoming.id).filter(|_| is_late)?;
                    Some(HostResponse::new(200, json!(record)))
                })),
                ..HostChanges::default()
            },
        ),
        mutant(
            "se-forget-thin",
            "A46-HTTP-07",
            "The response to DELETE has no `id`.",
            || HostChanges::of(Route::Forget, |reply| remove(&mut reply.body, "id")),
        ),
        mutant(
            "se-forget-refused",
            "A46-HTTP-07",
            "An ended session cannot be deleted.",
            || {
                HostChanges::before(|incoming, _, _| {
                    (incoming.route == Route::Forget)
                        .then(|| HostResponse::error(403, "sessions cannot be deleted"))
                })
            },
        ),
        mutant(
            "se-one-directory",
            "A46-SCOPE-01",
            "All sessions report the same `cwd`.",
            || HostChanges::record(|s| s["cwd"] = json!("/")),
        ),
        mutant(
            "se-one-agent",
            "A46-SCOPE-01",
            "Only the first prompt on the host is accepted.",
            || {
                HostChanges::before(|incoming, state, _| {
                    if incoming.route != Route::Prompt {
                        return None;
                    }
                    let is_first = state.count("prompts", "") == 0;
                    (!is_first).then(|| HostResponse::error(503, "another agent is running"))
                })
            },
        ),
    ]
}
