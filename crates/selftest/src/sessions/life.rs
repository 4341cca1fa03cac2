//! Defects in the start and the end of sessions.

use axum::http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::json;

use super::tamper::{Reply, Route};
use super::{Mutant, Tamper, advice, remove, wrong};

fn done(id: &str) -> Reply {
    Reply::new(200, json!({"ok": true, "id": id}))
}

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong(
            "se-never-running",
            "A46-STATUS-01",
            "A session stays `starting`.",
            || {
                Tamper::record(|s| {
                    if s["status"] == "running" {
                        s["status"] = json!("starting");
                    }
                })
            },
        ),
        wrong(
            "se-running-early",
            "A46-STATUS-01",
            "The status is `running` before the agent is ready.",
            || {
                Tamper::before(|asked, memory, _| {
                    let is_first =
                        asked.route == Route::Prompt && memory.count("prompt", &asked.id) == 0;
                    is_first.then(|| Reply::error(409, "not ready yet"))
                })
            },
        ),
        wrong(
            "se-kill-mild",
            "A46-STATUS-04",
            "A kill is confirmed, but the session continues.",
            || Tamper::before(|asked, _, _| (asked.route == Route::Kill).then(|| done(&asked.id))),
        ),
        wrong(
            "se-kill-exited",
            "A46-STATUS-04",
            "A killed session has the status `exited`.",
            || {
                Tamper::record(|s| {
                    if s["status"] == "killed" {
                        s["status"] = json!("exited");
                    }
                })
            },
        ),
        wrong(
            "se-kill-silent",
            "A46-HTTP-06",
            "The response to a kill has no `ok`.",
            || Tamper::of(Route::Kill, |reply| remove(&mut reply.body, "ok")),
        ),
        wrong(
            "se-kill-empty",
            "A46-HTTP-06",
            "The response to a kill is empty.",
            || {
                Tamper::of(Route::Kill, |reply| {
                    reply.status = 204;
                    reply.text = Some(String::new());
                })
            },
        ),
        wrong(
            "se-kill-hangs",
            "A46-HTTP-06",
            "A kill gets no response.",
            || Tamper {
                waits: Some(|asked| asked.route == Route::Prompt),
                before: Some(Box::new(|asked, _, _| {
                    // Turn the kill into a prompt whose turn does not end.
                    if asked.route == Route::Kill {
                        asked.route = Route::Prompt;
                        asked.body = json!({"prompt": "be slow"});
                        let json = HeaderValue::from_static("application/json");
                        asked.headers.insert(CONTENT_TYPE, json);
                    }
                    None
                })),
                ..Tamper::default()
            },
        ),
        wrong(
            "se-end-moves",
            "A46-STATUS-09",
            "The status of a killed session changes to `exited` later.",
            || {
                Tamper::after(|asked, reply, memory| {
                    let is_killed = asked.route == Route::Show && reply.body["status"] == "killed";
                    if is_killed && memory.count("killed", &asked.id) > 0 {
                        reply.body["status"] = json!("exited");
                    }
                })
            },
        ),
        wrong(
            "se-end-wakes",
            "A46-STATUS-09",
            "A killed session is `running` again after a prompt.",
            || {
                Tamper::after(|asked, reply, memory| {
                    if asked.route == Route::Prompt && reply.status >= 300 {
                        memory.count("woken", &asked.id);
                    }
                    if asked.route == Route::Show && memory.has("woken", &asked.id) {
                        reply.body["status"] = json!("running");
                    }
                })
            },
        ),
        wrong(
            "se-end-takes",
            "A46-STATUS-09",
            "A killed session accepts prompts.",
            || {
                Tamper::after(|asked, reply, _| {
                    if asked.route == Route::Prompt && reply.status >= 300 {
                        *reply = done(&asked.id);
                    }
                })
            },
        ),
        advice(
            "se-delete-mild",
            "A46-STATUS-05",
            "DELETE removes the session, but the agent keeps running.",
            || {
                Tamper::before(|asked, memory, registry| {
                    let lives = registry.get(&asked.id).is_ok_and(|s| s.status.is_alive());
                    if asked.route == Route::Forget && lives {
                        memory.count("forgotten", &asked.id);
                        return Some(done(&asked.id));
                    }
                    let is_gone = asked.route == Route::Show && memory.has("forgotten", &asked.id);
                    is_gone.then(|| Reply::error(404, "no such session"))
                })
            },
        ),
        wrong(
            "se-delete-refused",
            "A46-STATUS-05",
            "A live session cannot be deleted.",
            || {
                Tamper::before(|asked, _, registry| {
                    let lives = registry.get(&asked.id).is_ok_and(|s| s.status.is_alive());
                    (asked.route == Route::Forget && lives)
                        .then(|| Reply::error(409, "kill it first"))
                })
            },
        ),
        wrong(
            "se-delete-error",
            "A46-STATUS-05",
            "A deleted live session is kept with the status `error`.",
            || Tamper {
                before: Some(Box::new(|asked, memory, _| {
                    if asked.route == Route::Forget {
                        memory.count("deleted", &asked.id);
                        asked.route = Route::Kill;
                        asked.method = axum::http::Method::POST;
                    }
                    None
                })),
                after: Some(Box::new(|asked, reply, memory| {
                    if asked.route == Route::Show && memory.has("deleted", &asked.id) {
                        reply.body["status"] = json!("error");
                    }
                })),
                ..Tamper::default()
            },
        ),
        wrong(
            "se-forget-keeps",
            "A46-HTTP-07",
            "DELETE is confirmed, but the session is kept.",
            || {
                Tamper::before(|asked, _, _| {
                    (asked.route == Route::Forget).then(|| done(&asked.id))
                })
            },
        ),
        wrong(
            "se-forget-thin",
            "A46-HTTP-07",
            "The response to DELETE has no `id`.",
            || Tamper::of(Route::Forget, |reply| remove(&mut reply.body, "id")),
        ),
        wrong(
            "se-forget-refused",
            "A46-HTTP-07",
            "An ended session cannot be deleted.",
            || {
                Tamper::before(|asked, _, _| {
                    (asked.route == Route::Forget)
                        .then(|| Reply::error(403, "sessions cannot be deleted"))
                })
            },
        ),
        wrong(
            "se-one-directory",
            "A46-SCOPE-01",
            "All sessions report the same `cwd`.",
            || Tamper::record(|s| s["cwd"] = json!("/")),
        ),
        wrong(
            "se-one-agent",
            "A46-SCOPE-01",
            "Only the first prompt on the host is accepted.",
            || {
                Tamper::before(|asked, memory, _| {
                    if asked.route != Route::Prompt {
                        return None;
                    }
                    let is_first = memory.count("prompts", "") == 0;
                    (!is_first).then(|| Reply::error(503, "another agent is running"))
                })
            },
        ),
    ]
}
