//! Conforming hosts that differ from this project's daemon.

use std::time::Duration;

use serde_json::{Value, json};

use super::frames::Frame;
use super::tamper::{Reply, Route, Wire};
use super::{Made, Tamper, Variant, each_record, made, remove};

/// Members of a session record that the spec names.
const NAMED: [&str; 8] = [
    "id",
    "adapterSlug",
    "workspaceSlug",
    "cwd",
    "status",
    "startedAt",
    "endedAt",
    "label",
];

fn wired(wire: Wire) -> Tamper {
    Tamper {
        wire,
        ..Tamper::default()
    }
}

pub fn variants() -> Vec<Variant> {
    let variant = |name, what, made| Variant { name, what, made };
    vec![
        variant(
            "se-daemon",
            "The daemon without changes.",
            made(Tamper::default),
        ),
        variant(
            "se-patient",
            "The daemon, watched during silence.",
            Made {
                patience: Some(Duration::from_secs(32)),
                keep_alive: Some(Duration::from_secs(1)),
                ..made(Tamper::default)
            },
        ),
        variant(
            "se-other-ids",
            "Session ids with spaces, slashes and umlauts.",
            made(|| {
                wired(Wire {
                    other_ids: true,
                    ..Wire::default()
                })
            }),
        ),
        variant(
            "se-more-members",
            "Additional members in every response.",
            made(more_members),
        ),
        variant(
            "se-more-events",
            "Additional events and comments.",
            made(more_events),
        ),
        variant(
            "se-other-order",
            "JSON members in another order and on several lines.",
            made(|| Tamper {
                wire: Wire {
                    pretty: true,
                    ..Wire::default()
                },
                ..Tamper::after(|_, reply, _| reversed(&mut reply.body))
            }),
        ),
        variant(
            "se-chunked",
            "Responses in small chunks.",
            made(|| {
                wired(Wire {
                    chunked: true,
                    ..Wire::default()
                })
            }),
        ),
        variant(
            "se-crlf",
            "Streams with CRLF and multi-line data.",
            made(|| Tamper {
                wire: Wire {
                    crlf: true,
                    ..Wire::default()
                },
                ..Tamper::frames(|frame| {
                    vec![match frame {
                        Frame::Event { name, data } => {
                            let data: Value = serde_json::from_str(&data).unwrap_or_default();
                            let data = serde_json::to_string_pretty(&data).unwrap_or_default();
                            Frame::Event { name, data }
                        }
                        other => other,
                    }]
                })
            }),
        ),
        variant(
            "se-no-tools",
            "No MCP server.",
            made(|| {
                Tamper::before(|asked, _, _| {
                    (asked.route == Route::Mcp).then(|| Reply::error(404, "not found"))
                })
            }),
        ),
        variant(
            "se-tools-stream",
            "MCP responses as event streams.",
            made(|| {
                wired(Wire {
                    mcp_stream: true,
                    ..Wire::default()
                })
            }),
        ),
        variant(
            "se-tools-text",
            "MCP results with text only.",
            made(tools_text),
        ),
        variant(
            "se-no-workspaces",
            "No workspaces, so `cwd` is required.",
            made(no_workspaces),
        ),
        variant(
            "se-slow",
            "Every response is delayed.",
            made(|| Tamper {
                delay: Duration::from_millis(250),
                ..Tamper::default()
            }),
        ),
        variant(
            "se-plain-errors",
            "Error responses as plain text with other status codes.",
            made(plain_errors),
        ),
        variant("se-bare", "No optional features.", made(bare)),
        variant("se-coloured", "Lines with colors.", made(coloured)),
        variant(
            "se-late-errors",
            "A spawn with an unknown adapter creates a session that fails.",
            made(late_errors),
        ),
        variant(
            "se-open",
            "Access control without a token.",
            Made {
                is_open: true,
                ..made(|| Tamper {
                    no_gate: true,
                    ..Tamper::default()
                })
            },
        ),
        variant(
            "se-accepted",
            "The status 202 for prompts and kills.",
            made(accepted),
        ),
    ]
}

fn more_members() -> Tamper {
    Tamper::after(|asked, reply, _| {
        each_record(asked, reply, &|s| {
            s["pid"] = Value::Null;
            s["host"] = json!({"name": "elsewhere", "tags": [1, "two", null]});
        });
        if asked.route != Route::Mcp && reply.body.is_object() {
            reply.body["took"] = json!(3);
        }
    })
}

fn more_events() -> Tamper {
    Tamper::frames(|frame| {
        vec![
            Frame::Comment(": here I am".to_owned()),
            Frame::new("heartbeat", &json!(1)),
            Frame::Comment("event: empty\ndata:".to_owned()),
            frame,
        ]
    })
}

fn reversed(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let mut all: Vec<(String, Value)> = std::mem::take(members).into_iter().collect();
            all.reverse();
            for (_, value) in &mut all {
                reversed(value);
            }
            members.extend(all);
        }
        Value::Array(items) => items.iter_mut().for_each(reversed),
        _ => {}
    }
}

/// Tool results without structured content, as in older servers. Output lines are plain lines.
fn tools_text() -> Tamper {
    Tamper::after(|asked, reply, _| {
        let name = asked.tool().to_owned();
        let result = &mut reply.body["result"];
        if name.is_empty() || !result.is_object() {
            return;
        }
        let value = result["structuredContent"].clone();
        remove(result, "structuredContent");
        if name == "get_agent_session_output" && result["isError"] != true {
            let lines = value["lines"].as_array().into_iter().flatten();
            let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
            result["content"] = json!([{"type": "text", "text": lines.join("\n")}]);
        }
    })
}

fn no_workspaces() -> Tamper {
    Tamper {
        before: Some(Box::new(|asked, _, _| {
            let is_bare = asked.route == Route::Spawn && asked.body.get("cwd").is_none();
            is_bare.then(|| Reply::error(400, "`cwd` is required here"))
        })),
        ..Tamper::record(|s| s["workspaceSlug"] = json!("default"))
    }
}

fn plain_errors() -> Tamper {
    Tamper::after(|asked, reply, _| {
        let is_ours = asked.route != Route::Mcp;
        if reply.status >= 400 && is_ours {
            reply.status = match reply.status {
                400 => 422,
                401 => 403,
                404 => 410,
                other => other,
            };
            reply.media = "text/plain";
            reply.text = Some("No.\n".to_owned());
        }
    })
}

/// Omits all optional events and members.
fn bare() -> Tamper {
    Tamper {
        frame: Some(Box::new(|frame, _| match frame.line() {
            Some(_) => vec![frame],
            None => Vec::new(),
        })),
        ..Tamper::record(|s| {
            if let Some(members) = s.as_object_mut() {
                members.retain(|name, _| NAMED.contains(&name.as_str()));
            }
        })
    }
}

fn coloured() -> Tamper {
    Tamper {
        after: Some(Box::new(|asked, reply, _| {
            if asked.tool() == "get_agent_session_output" {
                super::of_tool(reply, |value| {
                    for line in value["lines"].as_array_mut().into_iter().flatten() {
                        *line = json!(in_colour(line));
                    }
                });
            }
        })),
        ..Tamper::lines(|data| data["line"] = json!(in_colour(&data["line"])))
    }
}

fn in_colour(line: &Value) -> String {
    format!("\u{1b}[2m{}\u{1b}[0m", line.as_str().unwrap_or_default())
}

/// The record of a session that could not be started.
fn failed() -> Value {
    json!({
        "id": "failed", "adapterSlug": "unknown", "workspaceSlug": "default", "cwd": "/",
        "status": "error", "startedAt": "2026-05-10T15:31:56Z", "endedAt": "2026-05-10T15:31:57Z",
    })
}

fn late_errors() -> Tamper {
    Tamper::before(|asked, _, _| {
        let adapter = &asked.body["adapter"];
        let is_unknown = adapter
            .as_str()
            .is_some_and(|slug| slug.starts_with("no-such"));
        match asked.route {
            Route::Spawn if is_unknown => Some(Reply::new(201, failed())),
            Route::Show if asked.id == "failed" => Some(Reply::new(200, failed())),
            _ => None,
        }
    })
}

fn accepted() -> Tamper {
    Tamper::after(|asked, reply, _| {
        if matches!(asked.route, Route::Prompt | Route::Kill) && reply.status == 200 {
            reply.status = 202;
        }
    })
}
