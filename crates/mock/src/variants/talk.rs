//! Variants of the messages in a turn: more, longer, or of other types.

use serde_json::{Value, json};

use super::{Variant, looks};
use crate::mutants::tools::*;
use crate::mutants::{Frame, Sent, Tamper};

pub fn variants() -> Vec<Variant> {
    vec![
        looks(
            "huge-chunk",
            "The first chunk has a text of one mebibyte.",
            Tamper::out(|context, sent, message| {
                let first = is_said(sent) && context.first("huge");
                change(message, first, |m| {
                    let long = format!("{}{}", text(m, TEXT), "lorem ä ".repeat(1 << 17));
                    set(m, TEXT, long);
                })
            }),
        ),
        looks(
            "many-chunks",
            "The first chunk is followed by five hundred small ones.",
            Tamper::out(|context, sent, message| {
                if !is_said(sent) || !context.first("many") {
                    return send(message);
                }
                let mut small = message.clone();
                set(&mut small, TEXT, ".");
                let small = std::iter::repeat_n(small, 500).map(Frame::Json);
                send(message).into_iter().chain(small).collect()
            }),
        ),
        looks(
            "empty-chunks",
            "Empty chunks are sent between the others.",
            Tamper::out(|_, sent, message| {
                if !is_said(sent) {
                    return send(message);
                }
                let mut empty = message.clone();
                set(&mut empty, TEXT, "");
                vec![Frame::Json(empty), Frame::Json(message)]
            }),
        ),
        looks(
            "thinks-first",
            "Every turn starts with a thought.",
            Tamper::both(
                |context, sent, message| {
                    let begun =
                        sent.update.ends_with("_chunk") || sent.update.starts_with("tool_call");
                    let session = text(&message, "/params/sessionId").to_owned();
                    match begun && context.notes.remove("asked") == Some(json!(session)) {
                        true => {
                            let thought = json!({
                                "sessionUpdate": "agent_thought_chunk",
                                "content": { "type": "text", "text": "Hm. " },
                            });
                            vec![update(&session, thought), Frame::Json(message)]
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
        looks(
            "empty-plan",
            "A plan without entries is sent before each plan.",
            Tamper::out(|_, sent, message| {
                if sent.update != "plan" {
                    return send(message);
                }
                let mut empty = message.clone();
                set(&mut empty, "/params/update/entries", json!([]));
                vec![Frame::Json(empty), Frame::Json(message)]
            }),
        ),
        looks(
            "counts-tokens",
            "Token counts and their cost are sent before the end of each turn and in the response.",
            Tamper::out(|_, sent, mut message| {
                if message.pointer("/result/stopReason").is_some() {
                    let usage = json!({ "usage": { "totalTokens": 4_000_000_000_u64 } });
                    set(&mut message, "/result/_meta", usage);
                }
                at_the_end(sent, message, |_| {
                    json!({
                        "sessionUpdate": "usage_update",
                        "used": 4_000_000_000_u64,
                        "size": 0,
                        "cost": { "amount": 0.000_001, "currency": "EUR" },
                    })
                })
            }),
        ),
        looks(
            "renames-sessions",
            "The session gets a new title at the end of each turn.",
            Tamper::out(|_, sent, message| {
                at_the_end(sent, message, |_| {
                    json!({
                        "sessionUpdate": "session_info_update",
                        "title": "Über \"alles\" 🦊",
                        "updatedAt": "2026-11-16T15:00:00+01:00",
                    })
                })
            }),
        ),
        looks(
            "tells-early",
            "A tool call update is sent before each permission request.",
            Tamper::out(|_, sent, message| {
                if sent.method != "session/request_permission" {
                    return send(message);
                }
                let call = message.pointer("/params/toolCall/toolCallId").cloned();
                let told = json!({
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": call,
                    "status": "pending",
                    "title": "Edit the notes, if you like",
                });
                let session = text(&message, "/params/sessionId").to_owned();
                vec![update(&session, told), Frame::Json(message)]
            }),
        ),
        looks(
            "calls-in-full",
            "A permission request repeats all data of its tool call.",
            Tamper::out(|_, sent, message| {
                change(message, sent.method == "session/request_permission", |m| {
                    set(m, "/params/toolCall/kind", "edit");
                    set(
                        m,
                        "/params/toolCall/rawInput",
                        json!({ "path": "notes.txt" }),
                    );
                    let old = json!({ "type": "diff", "path": "/notes.txt", "oldText": null, "newText": "" });
                    set(m, "/params/toolCall/content", json!([old]));
                    set(m, "/params/toolCall/locations", json!([]));
                })
            }),
        ),
        looks(
            "shows-media",
            "Messages also contain an image, a link and an embedded resource.",
            Tamper::out(|_, sent, message| {
                if !is_said(sent) {
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
                    Frame::Json(shown)
                });
                std::iter::once(Frame::Json(message.clone()))
                    .chain(shown)
                    .collect()
            }),
        ),
        looks(
            "announces-in-pieces",
            "A tool call is reported without kind, status and input. They follow in an update.",
            Tamper::out(|_, sent, message| {
                if sent.update != "tool_call" {
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
                vec![Frame::Json(first), Frame::Json(rest)]
            }),
        ),
    ]
}

const TEXT: &str = "/params/update/content/text";

fn is_said(sent: &Sent) -> bool {
    sent.update == "agent_message_chunk"
}

fn update(session: &str, update: Value) -> Frame {
    let params = json!({ "sessionId": session, "update": update });
    Frame::Json(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }))
}

/// Sends one more update before the end of a turn.
fn at_the_end(sent: &Sent, message: Value, what: fn(&Sent) -> Value) -> Frames {
    match sent.answers("session/prompt") {
        true => {
            let session = text(&sent.asked, "/sessionId");
            vec![update(session, what(sent)), Frame::Json(message)]
        }
        false => send(message),
    }
}
