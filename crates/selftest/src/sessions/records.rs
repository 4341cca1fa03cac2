//! Defects in session records, and in the routes that return them.

use serde_json::{Value, json};

use super::changes::{HostResponse, Route};
use super::{HostChanges, Mutant, each_record, mutant, remove};
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
        mutant("se-id-number", "A46-MODEL-01", "`id` is a number.", || {
            HostChanges::record(|s| s["id"] = json!(7))
        }),
        mutant(
            "se-id-changes",
            "A46-MODEL-01",
            "A session has another id when it is shown.",
            || HostChanges::of(Route::Show, |reply| reply.body["id"] = json!("ses_other")),
        ),
        mutant(
            "se-adapter-renamed",
            "A46-MODEL-02",
            "`adapterSlug` is the name of the protocol.",
            || HostChanges::record(|s| s["adapterSlug"] = json!("acp")),
        ),
        mutant(
            "se-workspace-missing",
            "A46-MODEL-03",
            "`workspaceSlug` is missing.",
            || HostChanges::record(|s| remove(s, "workspaceSlug")),
        ),
        mutant(
            "se-cwd-relative",
            "A46-MODEL-04",
            "`cwd` is relative.",
            || HostChanges::record(|s| s["cwd"] = json!("work")),
        ),
        mutant(
            "se-status-idle",
            "A46-MODEL-05",
            "A waiting session has the status `idle`.",
            || HostChanges::record(|s| s["status"] = json!("idle")),
        ),
        mutant(
            "se-started-unix",
            "A46-MODEL-06",
            "`startedAt` is a number of seconds.",
            || HostChanges::record(|s| s["startedAt"] = json!(1_778_426_516)),
        ),
        mutant(
            "se-started-moves",
            "A46-MODEL-06",
            "`startedAt` is the time of the response.",
            || {
                HostChanges::after(|incoming, reply, state| {
                    let minutes = state.count("answer", "") % 60;
                    let year = time::now().chars().take(4).collect::<String>();
                    let moved = json!(format!("{year}-01-01T00:{minutes:02}:00Z"));
                    each_record(incoming, reply, &|s| s["startedAt"] = moved.clone());
                })
            },
        ),
        mutant(
            "se-ended-missing",
            "A46-MODEL-07",
            "`endedAt` is never set.",
            || HostChanges::record(|s| remove(s, "endedAt")),
        ),
        mutant(
            "se-ended-alive",
            "A46-MODEL-07",
            "`endedAt` is set from the start.",
            || HostChanges::record(|s| s["endedAt"] = s["startedAt"].clone()),
        ),
        mutant(
            "se-ended-before",
            "A46-MODEL-07",
            "`endedAt` is before `startedAt`.",
            || {
                HostChanges::record(|s| {
                    if is_over(s) {
                        s["endedAt"] = json!("2001-01-01T00:00:00Z");
                    }
                })
            },
        ),
        mutant(
            "se-output-text",
            "A46-MODEL-08",
            "`lastOutputAt` is `just now`.",
            || HostChanges::record(|s| s["lastOutputAt"] = json!("just now")),
        ),
        mutant(
            "se-exit-alive",
            "A46-MODEL-09",
            "`exitCode` is 0 from the start.",
            || HostChanges::record(|s| s["exitCode"] = json!(0)),
        ),
        mutant(
            "se-exit-text",
            "A46-MODEL-09",
            "`exitCode` is a string.",
            || {
                HostChanges::record(|s| {
                    if is_over(s) {
                        s["exitCode"] = json!("137");
                    }
                })
            },
        ),
        mutant(
            "se-label-lost",
            "A46-MODEL-10",
            "The label is missing.",
            || HostChanges::record(|s| remove(s, "label")),
        ),
        mutant(
            "se-label-list",
            "A46-MODEL-10",
            "The label is a list of labels.",
            || HostChanges::record(|s| s["label"] = json!([s["label"]])),
        ),
        mutant(
            "se-label-ascii",
            "A46-SPAWN-05",
            "The label loses its non-ASCII characters.",
            || {
                HostChanges::record(|s| {
                    let label: String = s["label"].as_str().unwrap_or_default().to_owned();
                    s["label"] = json!(label.replace(|c: char| !c.is_ascii(), "?"));
                })
            },
        ),
    ]
}

fn routes() -> Vec<Mutant> {
    vec![
        mutant(
            "se-spawn-200",
            "A46-HTTP-03",
            "The response to a spawn has the status 200.",
            || HostChanges::of(Route::Spawn, |reply| reply.status = 200),
        ),
        mutant(
            "se-spawn-thin",
            "A46-HTTP-03",
            "The response to a spawn contains only the id.",
            || {
                HostChanges::of(Route::Spawn, |reply| {
                    reply.body = json!({"id": reply.body["id"]})
                })
            },
        ),
        mutant(
            "se-list-array",
            "A46-HTTP-02",
            "The response with the list is an array, not an object.",
            || {
                HostChanges::of(Route::List, |reply| {
                    reply.body = reply.body["sessions"].clone()
                })
            },
        ),
        mutant(
            "se-list-short",
            "A46-HTTP-02",
            "The list does not contain new sessions.",
            || HostChanges::of(Route::List, |reply| reply.body["sessions"] = json!([])),
        ),
        mutant(
            "se-list-thin",
            "A46-HTTP-02",
            "The records in the list have no `cwd`.",
            || {
                HostChanges::of(Route::List, |reply| {
                    let list = reply.body["sessions"].as_array_mut();
                    for record in list.into_iter().flatten() {
                        remove(record, "cwd");
                    }
                })
            },
        ),
        mutant(
            "se-list-twice",
            "A46-HTTP-02",
            "Every session is in the list twice.",
            || {
                HostChanges::of(Route::List, |reply| {
                    let list = reply.body["sessions"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default();
                    let twice = list.iter().flat_map(|s| [s.clone(), s.clone()]);
                    reply.body["sessions"] = twice.collect();
                })
            },
        ),
        mutant(
            "se-list-garbled",
            "A46-HTTP-02",
            "The response with the list has a duplicate member.",
            || {
                HostChanges::of(Route::List, |reply| {
                    let list = &reply.body["sessions"];
                    reply.text = Some(format!("{{\"sessions\":[],\"sessions\":{list}}}"));
                })
            },
        ),
        mutant(
            "se-show-wrapped",
            "A46-HTTP-04",
            "The record of a session is wrapped in an object.",
            || {
                HostChanges::of(Route::Show, |reply| {
                    reply.body = json!({"session": reply.body})
                })
            },
        ),
        mutant(
            "se-show-unknown",
            "A46-HTTP-04",
            "A new session is unknown.",
            || {
                HostChanges::of(Route::Show, |reply| {
                    *reply = HostResponse::error(404, "no such session")
                })
            },
        ),
        mutant(
            "se-no-delete",
            "A46-HTTP-01",
            "DELETE is not supported.",
            || {
                HostChanges::before(|incoming, _, _| {
                    (incoming.route == Route::Forget)
                        .then(|| HostResponse::error(405, "no such method"))
                })
            },
        ),
        mutant(
            "se-kill-elsewhere",
            "A46-HTTP-01",
            "The kill route does not exist.",
            || {
                HostChanges::before(|incoming, _, _| {
                    (incoming.route == Route::Kill).then(|| HostResponse::error(404, "not found"))
                })
            },
        ),
        mutant(
            "se-adapter-optional",
            "A46-SPAWN-01",
            "A spawn without an adapter starts the mock.",
            || {
                HostChanges::before(|incoming, _, _| {
                    let has_none =
                        incoming.body.is_object() && incoming.body.get("adapter").is_none();
                    if incoming.route == Route::Spawn && has_none {
                        incoming.body["adapter"] = json!("mock-acp");
                    }
                    None
                })
            },
        ),
        mutant(
            "se-adapter-any",
            "A46-SPAWN-01",
            "A spawn with an unknown adapter starts the mock.",
            || {
                HostChanges::before(|incoming, _, _| {
                    if incoming.route == Route::Spawn && incoming.body["adapter"].is_string() {
                        incoming.body["adapter"] = json!("mock-acp");
                    }
                    None
                })
            },
        ),
        mutant("se-cwd-ignored", "A46-WS-04", "`cwd` is ignored.", || {
            HostChanges::before(|incoming, _, _| {
                if incoming.route == Route::Spawn {
                    remove(&mut incoming.body, "cwd");
                }
                None
            })
        }),
        mutant(
            "se-workspace-wins",
            "A46-SPAWN-03",
            "`workspaceSlug` takes precedence over `cwd`.",
            || {
                HostChanges::before(|incoming, _, _| {
                    if incoming.route == Route::Spawn
                        && incoming.body.get("workspaceSlug").is_some()
                    {
                        remove(&mut incoming.body, "cwd");
                    }
                    None
                })
            },
        ),
        mutant(
            "se-no-place",
            "A46-SPAWN-02",
            "A spawn without `cwd` causes a server error.",
            || {
                HostChanges::before(|incoming, _, _| {
                    let is_bare =
                        incoming.route == Route::Spawn && incoming.body.get("cwd").is_none();
                    is_bare.then(|| HostResponse::error(500, "cwd is undefined"))
                })
            },
        ),
        mutant(
            "se-place-untold",
            "A46-SPAWN-02",
            "After a spawn without `cwd`, the record has `cwd: .`.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if incoming.route == Route::Spawn
                        && incoming.body.get("cwd").is_none()
                        && reply.status < 300
                    {
                        reply.body["cwd"] = json!(".");
                    }
                })
            },
        ),
    ]
}
