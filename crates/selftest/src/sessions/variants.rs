//! Conforming hosts that differ from this project's daemon.

use std::time::Duration;

use serde_json::{Value, json};

use super::changes::{Encoding, HostResponse, Route};
use super::frames::Frame;
use super::{HostChanges, HostSpec, Variant, each_record, host_spec, remove};

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

fn encoded_as(encoding: Encoding) -> HostChanges {
    HostChanges {
        encoding,
        ..HostChanges::default()
    }
}

/// All conforming variants.
pub fn variants() -> Vec<Variant> {
    let variant = |name, description, data| Variant {
        name,
        description,
        data,
    };
    vec![
        variant(
            "se-daemon",
            "The daemon without changes.",
            host_spec(HostChanges::default),
        ),
        variant(
            "se-patient",
            "The daemon, watched during silence.",
            HostSpec {
                timeout: Some(Duration::from_secs(32)),
                keep_alive: Some(Duration::from_secs(1)),
                ..host_spec(HostChanges::default)
            },
        ),
        variant(
            "se-stdio",
            "The MCP server over stdio.",
            HostSpec {
                door: Some(super::door::unchanged),
                ..host_spec(HostChanges::default)
            },
        ),
        variant(
            "se-other-ids",
            "Session ids with spaces, slashes and umlauts.",
            host_spec(|| {
                encoded_as(Encoding {
                    other_ids: true,
                    ..Encoding::default()
                })
            }),
        ),
        variant(
            "se-more-members",
            "Additional members in every response.",
            host_spec(more_members),
        ),
        variant(
            "se-more-events",
            "Additional events and comments.",
            host_spec(more_events),
        ),
        variant(
            "se-other-order",
            "JSON members in another order and on several lines.",
            host_spec(|| HostChanges {
                encoding: Encoding {
                    pretty: true,
                    ..Encoding::default()
                },
                ..HostChanges::after(|_, reply, _| reversed(&mut reply.body))
            }),
        ),
        variant(
            "se-chunked",
            "Responses in small chunks.",
            host_spec(|| {
                encoded_as(Encoding {
                    chunked: true,
                    ..Encoding::default()
                })
            }),
        ),
        variant(
            "se-crlf",
            "Streams with CRLF and multi-line data.",
            host_spec(|| HostChanges {
                encoding: Encoding {
                    crlf: true,
                    ..Encoding::default()
                },
                ..HostChanges::frames(|frame| {
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
            host_spec(|| {
                HostChanges::before(|incoming, _, _| {
                    (incoming.route == Route::Mcp).then(|| HostResponse::error(404, "not found"))
                })
            }),
        ),
        variant(
            "se-tools-stream",
            "MCP responses as event streams.",
            host_spec(|| {
                encoded_as(Encoding {
                    mcp_stream: true,
                    ..Encoding::default()
                })
            }),
        ),
        variant(
            "se-tools-text",
            "MCP results with text only.",
            host_spec(tools_text),
        ),
        variant(
            "se-no-workspaces",
            "No workspaces, so `cwd` is required.",
            host_spec(no_workspaces),
        ),
        variant(
            "se-slow",
            "Every response is delayed.",
            host_spec(|| HostChanges {
                delay: Duration::from_millis(250),
                ..HostChanges::default()
            }),
        ),
        variant(
            "se-plain-errors",
            "Error responses as plain text with other status codes.",
            host_spec(plain_errors),
        ),
        variant("se-bare", "No optional features.", host_spec(bare)),
        variant("se-coloured", "Lines with colors.", host_spec(colored)),
        variant(
            "se-late-errors",
            "A spawn with an unknown adapter creates a session that fails.",
            host_spec(late_errors),
        ),
        variant(
            "se-open",
            "Access control without a token.",
            HostSpec {
                without_token: true,
                ..host_spec(|| HostChanges {
                    accepts_all: true,
                    ..HostChanges::default()
                })
            },
        ),
        variant(
            "se-accepted",
            "The status 202 for prompts and kills.",
            host_spec(accepted),
        ),
    ]
}

fn more_members() -> HostChanges {
    HostChanges::after(|incoming, reply, _| {
        each_record(incoming, reply, &|s| {
            s["pid"] = Value::Null;
            s["host"] = json!({"name": "elsewhere", "tags": [1, "two", null]});
        });
        if incoming.route != Route::Mcp && reply.body.is_object() {
            reply.body["took"] = json!(3);
        }
    })
}

fn more_events() -> HostChanges {
    HostChanges::frames(|frame| {
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
fn tools_text() -> HostChanges {
    HostChanges::after(|incoming, reply, _| {
        let name = incoming.tool().to_owned();
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

fn no_workspaces() -> HostChanges {
    HostChanges {
        before: Some(Box::new(|incoming, _, _| {
            let is_bare = incoming.route == Route::Spawn && incoming.body.get("cwd").is_none();
            is_bare.then(|| HostResponse::error(400, "`cwd` is required here"))
        })),
        ..HostChanges::record(|s| s["workspaceSlug"] = json!("default"))
    }
}

fn plain_errors() -> HostChanges {
    HostChanges::after(|incoming, reply, _| {
        let is_ours = incoming.route != Route::Mcp;
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
fn bare() -> HostChanges {
    HostChanges {
        frame: Some(Box::new(|frame, _| match frame.line() {
            Some(_) => vec![frame],
            None => Vec::new(),
        })),
        ..HostChanges::record(|s| {
            if let Some(members) = s.as_object_mut() {
                members.retain(|name, _| NAMED.contains(&name.as_str()));
            }
        })
    }
}

fn colored() -> HostChanges {
    HostChanges {
        after: Some(Box::new(|incoming, reply, _| {
            if incoming.tool() == "get_agent_session_output" {
                super::of_tool(reply, |value| {
                    for line in value["lines"].as_array_mut().into_iter().flatten() {
                        *line = json!(in_color(line));
                    }
                });
            }
        })),
        ..HostChanges::lines(|data| data["line"] = json!(in_color(&data["line"])))
    }
}

fn in_color(line: &Value) -> String {
    format!("\u{1b}[2m{}\u{1b}[0m", line.as_str().unwrap_or_default())
}

/// The record of a session that could not be started.
fn failed() -> Value {
    json!({
        "id": "failed", "adapterSlug": "unknown", "workspaceSlug": "default", "cwd": "/",
        "status": "error", "startedAt": "2026-05-10T15:31:56Z", "endedAt": "2026-05-10T15:31:57Z",
    })
}

fn late_errors() -> HostChanges {
    HostChanges::before(|incoming, _, _| {
        let adapter = &incoming.body["adapter"];
        let is_unknown = adapter
            .as_str()
            .is_some_and(|slug| slug.starts_with("no-such"));
        match incoming.route {
            Route::Spawn if is_unknown => Some(HostResponse::new(201, failed())),
            Route::Show if incoming.id == "failed" => Some(HostResponse::new(200, failed())),
            _ => None,
        }
    })
}

fn accepted() -> HostChanges {
    HostChanges::after(|incoming, reply, _| {
        if matches!(incoming.route, Route::Prompt | Route::Kill) && reply.status == 200 {
            reply.status = 202;
        }
    })
}
