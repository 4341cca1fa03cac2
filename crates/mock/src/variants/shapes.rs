//! Variants of the members of responses and updates, all of them allowed.

use serde_json::{Map, Value, json};

use super::{AgentVariant, with_tamper};
use crate::mutants::Tamper;
use crate::mutants::tools::*;

pub fn variants() -> Vec<AgentVariant> {
    vec![
        with_tamper(
            "meta",
            "Every object that may have `_meta` has it.",
            Tamper::outgoing(|_, _, mut message| {
                for root in ["/params", "/result"] {
                    if let Some(value) = message.pointer_mut(root) {
                        mark(value);
                    }
                }
                send(message)
            }),
        ),
        with_tamper(
            "traced",
            "Every update has a W3C trace context.",
            Tamper::outgoing(|_, summary, message| {
                change(message, summary.method == "session/update", |m| {
                    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
                    set(m, "/params/_meta/traceparent", trace);
                    set(m, "/params/_meta/tracestate", "mock=1");
                })
            }),
        ),
        with_tamper(
            "nulls",
            "Optional members are null instead of being omitted.",
            Tamper::outgoing(|_, summary, mut message| {
                for path in nulls(&summary.method, &summary.update, summary.is_result) {
                    if message.pointer(path).is_none() {
                        set(&mut message, path, Value::Null);
                    }
                }
                send(message)
            }),
        ),
        with_tamper(
            "null-capabilities",
            "Unsupported capabilities are null.",
            Tamper::outgoing(|_, summary, message| {
                change(message, summary.answers("initialize"), |m| {
                    for name in ["list", "delete", "additionalDirectories", "resume", "close"] {
                        let path = format!("{CAPABILITIES}/sessionCapabilities/{name}");
                        set(m, &path, Value::Null);
                    }
                    set(m, &format!("{CAPABILITIES}/auth/logout"), Value::Null);
                })
            }),
        )
        .in_scenario("bare"),
        with_tamper(
            "terse",
            "The response to initialize omits everything that has a default.",
            Tamper::outgoing(|_, summary, message| {
                change(message, summary.answers("initialize"), |m| {
                    set(m, CAPABILITIES, json!({}));
                    remove(m, "/result/authMethods");
                    remove(m, "/result/agentInfo/title");
                })
            }),
        )
        .in_scenario("bare"),
        with_tamper(
            "null-load",
            "session/load is answered with null.",
            Tamper::outgoing(|_, summary, message| {
                change(message, summary.answers("session/load"), |m| {
                    set(m, "/result", Value::Null);
                })
            }),
        )
        .in_scenario("tools"),
        with_tamper(
            "other-name",
            "It has another name, title and version.",
            Tamper::outgoing(|_, summary, message| {
                change(message, summary.answers("initialize"), |m| {
                    let version = "2026.11-rc.1+build 7 (日本)";
                    let info = json!({ "name": "@acme/Ägent v2", "title": "", "version": version });
                    set(m, "/result/agentInfo", info);
                })
            }),
        ),
        with_tamper(
            "grouped-options",
            "The values of options are in groups.",
            Tamper::outgoing(|_, _, mut message| {
                each_option(&mut message, |option| {
                    if let Some(Value::Array(values)) = option.get("options").cloned() {
                        let group = |id: &str, values: &[Value]| json!({ "group": id, "name": id, "options": values });
                        let (first, rest) = values.split_at(values.len().min(1));
                        let groups = json!([group("usual", first), group("more", rest)]);
                        set(option, "/options", groups);
                    }
                });
                send(message)
            }),
        ),
        with_tamper(
            "options-only",
            "It has options but no modes.",
            Tamper::both(
                |_, summary, mut message| {
                    remove(&mut message, "/result/modes");
                    // An option for the mode requires `modes`, so remove it as well.
                    for path in OPTIONS {
                        if let Some(Value::Array(options)) = message.pointer_mut(path) {
                            options.retain(|option| text(option, "/category") != "mode");
                        }
                    }
                    match summary.update == "current_mode_update" {
                        true => Vec::new(),
                        false => send(message),
                    }
                },
                |_, message| without(message, "session/set_mode"),
            ),
        ),
        with_tamper(
            "own-categories",
            "Options have no category or a custom one.",
            Tamper::outgoing(|_, _, mut message| {
                each_option(&mut message, |option| match text(option, "/category") {
                    "mode" => {}
                    "" => set(option, "/category", "_mock/more"),
                    _ => remove(option, "/category"),
                });
                send(message)
            }),
        ),
        with_tamper(
            "explained-errors",
            "Errors have long messages and data of different types.",
            Tamper::outgoing(|_, summary, message| {
                change(message, summary.is_error, |m| {
                    let long = format!(
                        "{}\nSee the log. {}",
                        text(m, "/error/message"),
                        "é".repeat(500)
                    );
                    set(m, "/error/message", long);
                    set(
                        m,
                        "/error/data",
                        json!([null, { "stack": ["a", "b"] }, 1.5]),
                    );
                })
            }),
        ),
        with_tamper(
            "cursors",
            "The list of sessions is split into pages with opaque cursors.",
            Tamper::both(
                |_, _, mut message| {
                    let next = text(&message, "/result/nextCursor").to_owned();
                    if !next.is_empty() {
                        set(
                            &mut message,
                            "/result/nextCursor",
                            format!("{CURSOR}{next}=="),
                        );
                    }
                    send(message)
                },
                |_, mut message| {
                    let cursor = text(&message, "/params/cursor");
                    let own = cursor.strip_prefix(CURSOR);
                    let own = own.and_then(|own| own.strip_suffix("=="));
                    if let Some(own) = own.map(str::to_owned) {
                        set(&mut message, "/params/cursor", own);
                    }
                    pass(message)
                },
            ),
        )
        .in_scenario("rich"),
    ]
}

const CAPABILITIES: &str = "/result/agentCapabilities";
const OPTIONS: [&str; 2] = ["/result/configOptions", "/params/update/configOptions"];
const CURSOR: &str = "eyJ/+ ";

fn without(message: Value, method: &str) -> Received {
    match calls(&message, method) {
        true => reject(&message, -32601),
        false => pass(message),
    }
}

fn each_option(message: &mut Value, mut change: impl FnMut(&mut Value)) {
    for path in OPTIONS {
        each(message, path, &mut change);
    }
}

/// Members with free-form JSON or their own keys, which are left unchanged.
const FREE: [&str; 6] = [
    "_meta",
    "rawInput",
    "rawOutput",
    "requestedSchema",
    "env",
    "outcome",
];

/// Adds `_meta` to an object and to all objects in it.
fn mark(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                if !FREE.contains(&name.as_str()) {
                    mark(value);
                }
            }
            meta(map);
        }
        Value::Array(list) => list.iter_mut().for_each(mark),
        _ => {}
    }
}

fn meta(map: &mut Map<String, Value>) {
    let own = json!({ "mock.example/trace": [1, { "deep": null }], "note": "ours" });
    map.insert("_meta".to_owned(), own);
}

/// Members that may be null, and for which the mock has no value.
fn nulls(method: &str, update: &str, is_result: bool) -> &'static [&'static str] {
    match (method, update, is_result) {
        ("initialize", _, true) => &["/result/_meta", "/result/agentInfo/_meta"],
        ("session/new" | "session/load" | "session/resume", _, true) => {
            &["/result/modes", "/result/configOptions", "/result/_meta"]
        }
        ("session/list", _, true) => &["/result/nextCursor", "/result/_meta"],
        (_, "agent_message_chunk" | "agent_thought_chunk", _) => &[
            "/params/update/content/annotations",
            "/params/update/content/_meta",
            "/params/update/_meta",
            "/params/_meta",
        ],
        (_, "tool_call_update", _) => &[
            "/params/update/title",
            "/params/update/kind",
            "/params/update/status",
            "/params/update/content",
            "/params/update/locations",
        ],
        (_, "usage_update", _) => &["/params/update/cost"],
        (_, "session_info_update", _) => &["/params/update/updatedAt"],
        ("session/request_permission", ..) => &[
            "/params/toolCall/kind",
            "/params/toolCall/content",
            "/params/toolCall/locations",
        ],
        ("fs/read_text_file", ..) => &["/params/line", "/params/limit"],
        ("terminal/create", ..) => &["/params/outputByteLimit"],
        _ => &[],
    }
}
