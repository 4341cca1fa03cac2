//! Gemini generateContent.

use serde_json::{Value, json};

use super::{ResponseContext, StreamItem};
use crate::llm::plan::{ReplyPart, joined};
use crate::llm::script::StopReason;

fn finish_reason(context: &ResponseContext) -> &'static str {
    match context.plan.stop {
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::RpcError => "SAFETY",
        StopReason::EndTurn => "STOP",
    }
}

fn answer(context: &ResponseContext, parts: Vec<Value>, finish: Option<&str>) -> Value {
    let (input, output) = (context.plan.input, context.plan.output);
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let (Some(candidate), Some(finish)) = (candidate.as_object_mut(), finish) {
        candidate.insert("finishReason".to_owned(), json!(finish));
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": input,
            "candidatesTokenCount": output,
            "totalTokenCount": input.saturating_add(output),
        },
        "modelVersion": context.model(),
        "responseId": context.id("resp-"),
    })
}

fn call(context: &ResponseContext, index: usize, name: &str, args: &Value) -> Value {
    let args = match args {
        Value::String(text) => json!({"input": text}),
        other => other.clone(),
    };
    json!({"functionCall": {"id": context.call_id("call-", index), "name": name, "args": args}})
}

pub fn json_body(context: &ResponseContext) -> Value {
    let mut parts = Vec::new();
    for part in &context.plan.parts {
        match part {
            ReplyPart::Text(chunks) => parts.push(json!({"text": joined(chunks)})),
            ReplyPart::Thought(chunks) => {
                parts.push(json!({"text": joined(chunks), "thought": true}))
            }
            ReplyPart::Call { name, args, .. } => {
                parts.push(call(context, parts.len(), name, args))
            }
            ReplyPart::Pause(_) | ReplyPart::Break(_) | ReplyPart::Error(_) => {}
        }
    }
    answer(context, parts, Some(finish_reason(context)))
}

pub fn stream(context: &ResponseContext) -> Vec<StreamItem> {
    let mut out = Vec::new();
    let mut calls = 0;
    for part in &context.plan.parts {
        match part {
            ReplyPart::Text(chunks) | ReplyPart::Thought(chunks) => {
                for chunk in chunks {
                    if !chunk.wait.is_zero() {
                        out.push(StreamItem::Wait(chunk.wait));
                    }
                    let piece = match part {
                        ReplyPart::Text(_) => json!({"text": chunk.text}),
                        _ => json!({"text": chunk.text, "thought": true}),
                    };
                    out.push(StreamItem::Event(None, answer(context, vec![piece], None)));
                }
            }
            ReplyPart::Call { name, args, .. } => {
                let piece = call(context, calls, name, args);
                out.push(StreamItem::Event(None, answer(context, vec![piece], None)));
                calls += 1;
            }
            ReplyPart::Pause(pause) => out.push(StreamItem::Wait(*pause)),
            ReplyPart::Break(how) => {
                out.push(StreamItem::Break(how.clone()));
                return out;
            }
            ReplyPart::Error(failure) => {
                let error = error(failure.status, &failure.message);
                out.push(StreamItem::Event(None, error));
                return out;
            }
        }
    }
    let last = vec![json!({"text": ""})];
    out.push(StreamItem::Event(
        None,
        answer(context, last, Some(finish_reason(context))),
    ));
    out
}

pub fn error(status: u16, message: &str) -> Value {
    let word = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        400..=499 => "INVALID_ARGUMENT",
        503 | 529 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": word}})
}
