//! Variants of the messages in a turn: more, longer, or of other types.

use serde_json::{Value, json};

use super::{AgentVariant, with_tamper};
use crate::mutants::tools::*;
use crate::mutants::{MessageFrame, MessageSummary, Tamper};

pub fn variants() -> Vec<AgentVariant> {
    vec![
        with_tamper(
            "huge-chunk",
            "The first chunk has a text of one mebibyte.",
            Tamper::outgoing(|context, summary, message| {
                let first = is_text_chunk(summary) && context.first("huge");
                change(message, first, |m| {
                    let long = format!("{}{}", text(m, TEXT), "lorem ä ".repeat(1 << 17));
                    set(m, TEXT, long);
                })
            }),
        ),
        with_tamper(
            "many-chunks",
            "The first chunk is followed by five hundred small ones.",
            Tamper::outgoing(|context, summary, message| {
                if !is_text_chunk(summary) || !context.first("many") {
                    return send(message);
                }
                let mut small = message.clone();
                set(&mut small, TEXT, ".");
                let small = std::iter::repeat_n(small, 500).map(MessageFrame::Json);
                send(message).into_iter().chain(small).collect()
            }),
        ),
        with_tamper(
            "empty-chunks",
            "Empty chunks are sent between the others.",
            Tamper::outgoing(|_, summary, message| {
                if !is_text_chunk(summary) {
                    return send(message);
                }
                let mut empty = message.clone();
                set(&mut empty, TEXT, "");
                vec![MessageFrame::Json(empty), MessageFrame::Json(message)]
            }),
        ),
        with_tamper(
            "thinks-first",
            "Every turn starts with a thought.",
            Tamper::both(
                |context, summary, message| {
                    let begun = summary.update.ends_with("_chunk")
                        || summary.update.starts_with("tool_call");
                    let session = text(&message, "/params/sessionId").to_owned();
                    match begun && context.notes.remove("asked") == Some(json!(session)) {
                        true => {
                            let thought = json!({
                                "sessionUpdate": "agent_thought_chunk",
                                "content": { "type": "text", "text": "Hm. " },
                            });
                            vec![update(&session, thought), MessageFrame::Json(message)]
                        }
                        false => send(message),
                    }
                },
                |context, message| {
                    if calls(&message, "session/prompt") {
                        let session = json!(text(&message, "/params/sessionId"));
                        context.notes.insert("asked", session);
                    }
                    pass(message)
                },
            ),
        ),
        with_tamper(
            "empty-plan",
            "A plan without entries is sent before each plan.",
            Tamper::outgoing(|_, summary, message| {
                if summary.update != "plan" {
                    return send(message);
                }
                let mut empty = message.clone();
                set(&mut empty, "/params/update/entries", json!([]));
                vec![MessageFrame::Json(empty), MessageFrame::Json(message)]
            }),
        ),
        with_tamper(
            "counts-tokens",
            "Token counts and their cost are sent before the end of each turn and in the response.",
            Tamper::outgoing(|_, summary, mut message| {
                if message.pointer("/result/stopReason").is_some() {
                    let usage = json!({ "usage": { "totalTokens": 4_000_000_000_u64 } });
                    set(&mut message, "/result/_meta", usage);
                }
                after_result(summary, message, |_| {
                    json!({
                        "sessionUpdate": "usage_update",
                        "used": 4_000_000_000_u64,
                        "size": 0,
                        "cost": { "amount": 0.000_001, "currency": "EUR" },
                    })
                })
            }),
        ),
        with_tamper(
            "renames-sessions",
            "The session gets a new title at the end of each turn.",
            Tamper::outgoing(|_, summary, message| {
                after_result(summary, message, |_| {
                    json!({
                        "sessionUpdate": "session_info_update",
                        "title": "Über \"alles\" 🦊",
                        "updatedAt": "2026-11-16T15:00:00+01:00",
                    })
                })
            }),
        ),
        with_tamper(
            "tells-early",
            "A tool call update is sent before each permission request.",
            Tamper::outgoing(|_, summary, message| {
                if summary.method != "session/request_permission" {
                    return send(message);
                }
                let call = message.pointer("/params/toolCall/toolCallId").cloned();
                let fields = json!({
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": call,
                    "status": "pending",
                    "title": "Edit the notes, if you like",
                });
                let session = text(&message, "/params/sessionId").to_owned();
                vec![update(&session, fields), MessageFrame::Json(message)]
            }),
        ),
        with_tamper(
            "calls-in-full",
            "A permission request repeats all data of its tool call.",
            Tamper::outgoing(|_, summary, message| {
                change(
                    message,
                    summary.method == "session/request_permission",
                    |m| {
                        set(m, "/params/toolCall/kind", "edit");
                        set(
                            m,
                            "/params/toolCall/rawInput",
                            json!({ "path": "notes.txt" }),
                        );
                        let old = json!({ "type": "diff", "path": "/notes.txt", "oldText": null, "newText": "" });
                        set(m, "/params/toolCall/content", json!([old]));
                        set(m, "/params/toolCall/locations", json!([]));
                    },
                )
            }),
        ),
        with_tamper(
            "shows-media",
            "Messages also contain an image, a link and an embedded resource.",
            Tamper::outgoing(|_, summary, message| {
                if !is_text_chunk(summary) {
                    return send(message);
                }
                let blocks = [
                    json!({ "type": "image", "mimeType": "image/gif", "data": "R0lGODlhAQABAAAAADs=" }),
                    json!({ "type": "resource_link", "uri": "file:///notes.txt", "name": "notes", "size": 7 }),
                    json!({ "type": "resource", "resource": { "uri": "mock:a", "text": "a" } }),
                ];
                let shown = blocks.map(|block| {
                    let mut shown = message.clone();
                    set(&mut shown, "/params/update/content", block);
                    MessageFrame::Json(shown)
                });
                std::iter::once(MessageFrame::Json(message.clone()))
                    .chain(shown)
                    .collect()
            }),
        ),
        with_tamper(
            "announces-in-pieces",
            "A tool call is reported without kind, status and input. They follow in an update.",
            Tamper::outgoing(|_, summary, message| {
                if summary.update != "tool_call" {
                    return send(message);
                }
                let mut first = message.clone();
                for name in ["kind", "status", "rawInput", "content", "locations"] {
                    remove(&mut first, &format!("/params/update/{name}"));
                }
                let mut rest = message;
                set(
                    &mut rest,
                    "/params/update/sessionUpdate",
                    "tool_call_update",
                );
                remove(&mut rest, "/params/update/title");
                vec![MessageFrame::Json(first), MessageFrame::Json(rest)]
            }),
        ),
    ]
}

const TEXT: &str = "/params/update/content/text";

fn is_text_chunk(summary: &MessageSummary) -> bool {
    summary.update == "agent_message_chunk"
}

fn update(session: &str, update: Value) -> MessageFrame {
    let params = json!({ "sessionId": session, "update": update });
    MessageFrame::Json(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }))
}

/// Sends one more update before the end of a turn.
fn after_result(
    summary: &MessageSummary,
    message: Value,
    what: fn(&MessageSummary) -> Value,
) -> MessageFrames {
    match summary.answers("session/prompt") {
        true => {
            let session = text(&summary.request_params, "/sessionId");
            vec![update(session, what(summary)), MessageFrame::Json(message)]
        }
        false => send(message),
    }
}
