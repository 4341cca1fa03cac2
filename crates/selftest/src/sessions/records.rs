//! Defects in session records, and in the routes that return them.

use serde_json::{Value, json};

use super::tamper::{Reply, Route};
use super::{Mutant, Tamper, each_record, remove, wrong};
use agentproto_text::time;

pub fn mutants() -> Vec<Mutant> {
    let mut all = members();
    all.extend(routes());
    all
}

fn is_over(record: &Value) -> bool {
    ["exited", "killed", "error"]
        .iter()
        .any(|end| record["status"] == *end)
}

fn members() -> Vec<Mutant> {
    vec![
        wrong("se-id-number", "A46-MODEL-01", "`id` is a number.", || {
            Tamper::record(|s| s["id"] = json!(7))
        }),
        wrong(
            "se-id-changes",
            "A46-MODEL-01",
            "A session has another id when it is shown.",
            || Tamper::of(Route::Show, |reply| reply.body["id"] = json!("ses_other")),
        ),
        wrong(
            "se-adapter-renamed",
            "A46-MODEL-02",
            "`adapterSlug` is the name of the protocol.",
            || Tamper::record(|s| s["adapterSlug"] = json!("acp")),
        ),
        wrong(
            "se-workspace-missing",
            "A46-MODEL-03",
            "`workspaceSlug` is missing.",
            || Tamper::record(|s| remove(s, "workspaceSlug")),
        ),
        wrong(
            "se-cwd-relative",
            "A46-MODEL-04",
            "`cwd` is relative.",
            || Tamper::record(|s| s["cwd"] = json!("work")),
        ),
        wrong(
            "se-status-idle",
            "A46-MODEL-05",
            "A waiting session has the status `idle`.",
            || Tamper::record(|s| s["status"] = json!("idle")),
        ),
        wrong(
            "se-started-unix",
            "A46-MODEL-06",
            "`startedAt` is a number of seconds.",
            || Tamper::record(|s| s["startedAt"] = json!(1_778_426_516)),
        ),
        wrong(
            "se-started-moves",
            "A46-MODEL-06",
            "`startedAt` is the time of the response.",
            || {
                Tamper::after(|asked, reply, memory| {
                    let minutes = memory.count("answer", "") % 60;
                    let year = time::now().chars().take(4).collect::<String>();
                    let moved = json!(format!("{year}-01-01T00:{minutes:02}:00Z"));
                    each_record(asked, reply, &|s| s["startedAt"] = moved.clone());
                })
            },
        ),
        wrong(
            "se-ended-missing",
            "A46-MODEL-07",
            "`endedAt` is never set.",
            || Tamper::record(|s| remove(s, "endedAt")),
        ),
        wrong(
            "se-ended-alive",
            "A46-MODEL-07",
            "`endedAt` is set from the start.",
            || Tamper::record(|s| s["endedAt"] = s["startedAt"].clone()),
        ),
        wrong(
            "se-ended-before",
            "A46-MODEL-07",
            "`endedAt` is before `startedAt`.",
            || {
                Tamper::record(|s| {
                    if is_over(s) {
                        s["endedAt"] = json!("2001-01-01T00:00:00Z");
                    }
                })
            },
        ),
        wrong(
            "se-output-text",
            "A46-MODEL-08",
            "`lastOutputAt` is `just now`.",
            || Tamper::record(|s| s["lastOutputAt"] = json!("just now")),
        ),
        wrong(
            "se-exit-alive",
            "A46-MODEL-09",
            "`exitCode` is 0 from the start.",
            || Tamper::record(|s| s["exitCode"] = json!(0)),
        ),
        wrong(
            "se-exit-text",
            "A46-MODEL-09",
            "`exitCode` is a string.",
            || {
                Tamper::record(|s| {
                    if is_over(s) {
                        s["exitCode"] = json!("137");
                    }
                })
            },
        ),
        wrong(
            "se-label-lost",
            "A46-MODEL-10",
            "The label is missing.",
            || Tamper::record(|s| remove(s, "label")),
        ),
        wrong(
            "se-label-list",
            "A46-MODEL-10",
            "The label is a list of labels.",
            || Tamper::record(|s| s["label"] = json!([s["label"]])),
        ),
        wrong(
            "se-label-ascii",
            "A46-SPAWN-05",
            "The label loses its non-ASCII characters.",
            || {
                Tamper::record(|s| {
                    let label: String = s["label"].as_str().unwrap_or_default().to_owned();
                    s["label"] = json!(label.replace(|c: char| !c.is_ascii(), "?"));
                })
            },
        ),
    ]
}

fn routes() -> Vec<Mutant> {
    vec![
        wrong(
            "se-spawn-200",
            "A46-HTTP-03",
            "The response to a spawn has the status 200.",
            || Tamper::of(Route::Spawn, |reply| reply.status = 200),
        ),
        wrong(
            "se-spawn-thin",
            "A46-HTTP-03",
            "The response to a spawn contains only the id.",
            || {
                Tamper::of(Route::Spawn, |reply| {
                    reply.body = json!({"id": reply.body["id"]})
                })
            },
        ),
        wrong(
            "se-list-array",
            "A46-HTTP-02",
            "The response with the list is an array, not an object.",
            || {
                Tamper::of(Route::List, |reply| {
                    reply.body = reply.body["sessions"].clone()
                })
            },
        ),
        wrong(
            "se-list-short",
            "A46-HTTP-02",
            "The list does not contain new sessions.",
            || Tamper::of(Route::List, |reply| reply.body["sessions"] = json!([])),
        ),
        wrong(
            "se-list-thin",
            "A46-HTTP-02",
            "The records in the list have no `cwd`.",
            || {
                Tamper::of(Route::List, |reply| {
                    let list = reply.body["sessions"].as_array_mut();
                    for record in list.into_iter().flatten() {
                        remove(record, "cwd");
                    }
                })
            },
        ),
        wrong(
            "se-list-twice",
            "A46-HTTP-02",
            "Every session is in the list twice.",
            || {
                Tamper::of(Route::List, |reply| {
                    let list = reply.body["sessions"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default();
                    let twice = list.iter().flat_map(|s| [s.clone(), s.clone()]);
                    reply.body["sessions"] = twice.collect();
                })
            },
        ),
        wrong(
            "se-list-garbled",
            "A46-HTTP-02",
            "The response with the list has a duplicate member.",
            || {
                Tamper::of(Route::List, |reply| {
                    let list = &reply.body["sessions"];
                    reply.text = Some(format!("{{\"sessions\":[],\"sessions\":{list}}}"));
                })
            },
        ),
        wrong(
            "se-show-wrapped",
            "A46-HTTP-04",
            "The record of a session is wrapped in an object.",
            || {
                Tamper::of(Route::Show, |reply| {
                    reply.body = json!({"session": reply.body})
                })
            },
        ),
        wrong(
            "se-show-unknown",
            "A46-HTTP-04",
            "A new session is unknown.",
            || {
                Tamper::of(Route::Show, |reply| {
                    *reply = Reply::error(404, "no such session")
                })
            },
        ),
        wrong(
            "se-no-delete",
            "A46-HTTP-01",
            "DELETE is not supported.",
            || {
                Tamper::before(|asked, _, _| {
                    (asked.route == Route::Forget).then(|| Reply::error(405, "no such method"))
                })
            },
        ),
        wrong(
            "se-kill-elsewhere",
            "A46-HTTP-01",
            "The kill route does not exist.",
            || {
                Tamper::before(|asked, _, _| {
                    (asked.route == Route::Kill).then(|| Reply::error(404, "not found"))
                })
            },
        ),
        wrong(
            "se-adapter-optional",
            "A46-SPAWN-01",
            "A spawn without an adapter starts the mock.",
            || {
                Tamper::before(|asked, _, _| {
                    let has_none = asked.body.is_object() && asked.body.get("adapter").is_none();
                    if asked.route == Route::Spawn && has_none {
                        asked.body["adapter"] = json!("mock-acp");
                    }
                    None
                })
            },
        ),
        wrong(
            "se-adapter-any",
            "A46-SPAWN-01",
            "A spawn with an unknown adapter starts the mock.",
            || {
                Tamper::before(|asked, _, _| {
                    if asked.route == Route::Spawn && asked.body["adapter"].is_string() {
                        asked.body["adapter"] = json!("mock-acp");
                    }
                    None
                })
            },
        ),
        wrong("se-cwd-ignored", "A46-WS-04", "`cwd` is ignored.", || {
            Tamper::before(|asked, _, _| {
                if asked.route == Route::Spawn {
                    remove(&mut asked.body, "cwd");
                }
                None
            })
        }),
        wrong(
            "se-workspace-wins",
            "A46-SPAWN-03",
            "`workspaceSlug` takes precedence over `cwd`.",
            || {
                Tamper::before(|asked, _, _| {
                    if asked.route == Route::Spawn && asked.body.get("workspaceSlug").is_some() {
                        remove(&mut asked.body, "cwd");
                    }
                    None
                })
            },
        ),
        wrong(
            "se-no-place",
            "A46-SPAWN-02",
            "A spawn without `cwd` causes a server error.",
            || {
                Tamper::before(|asked, _, _| {
                    let is_bare = asked.route == Route::Spawn && asked.body.get("cwd").is_none();
                    is_bare.then(|| Reply::error(500, "cwd is undefined"))
                })
            },
        ),
        wrong(
            "se-place-untold",
            "A46-SPAWN-02",
            "After a spawn without `cwd`, the record has `cwd: .`.",
            || {
                Tamper::after(|asked, reply, _| {
                    if asked.route == Route::Spawn
                        && asked.body.get("cwd").is_none()
                        && reply.status < 300
                    {
                        reply.body["cwd"] = json!(".");
                    }
                })
            },
        ),
    ]
}
