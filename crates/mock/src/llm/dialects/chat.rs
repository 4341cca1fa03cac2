//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{CREATED, ResponseContext, StreamItem, argument_text, openai_error};
use crate::llm::plan::{ReplyPart, joined};
use crate::llm::script::StopReason;

fn finish_reason(context: &ResponseContext) -> &'static str {
    match context.plan.stop {
        StopReason::MaxTokens => "length",
        StopReason::RpcError => "content_filter",
        StopReason::EndTurn if context.plan.calls() => "tool_calls",
        StopReason::EndTurn => "stop",
    }
}

fn usage(context: &ResponseContext) -> Value {
    let (input, output) = (context.plan.input, context.plan.output);
    json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input.saturating_add(output),
    })
}

fn arguments(args: &Value) -> String {
    match args {
        Value::String(text) => json!({"input": text}).to_string(),
        other => argument_text(other),
    }
}

pub fn json_body(context: &ResponseContext) -> Value {
    let (mut text, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for part in &context.plan.parts {
        match part {
            ReplyPart::Text(chunks) => text.push_str(&joined(chunks)),
            ReplyPart::Thought(chunks) => thought.push_str(&joined(chunks)),
            ReplyPart::Call { name, args, .. } => calls.push(json!({
                "id": context.call_id("call_", calls.len()),
                "type": "function",
                "function": {"name": name, "arguments": arguments(args)},
            })),
            ReplyPart::Pause(_) | ReplyPart::Break(_) | ReplyPart::Error(_) => {}
        }
    }
    let has_content = !text.is_empty() || calls.is_empty();
    let mut message = json!({"role": "assistant", "content": has_content.then_some(text)});
    if let Some(message) = message.as_object_mut() {
        if !thought.is_empty() {
            message.insert("reasoning_content".to_owned(), json!(thought));
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), json!(calls));
        }
    }
    json!({
        "id": context.id("chatcmpl-"),
        "object": "chat.completion",
        "created": CREATED,
        "model": context.model(),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(context)}],
        "usage": usage(context),
    })
}

pub fn stream(context: &ResponseContext) -> Vec<StreamItem> {
    let event = |choices: Value, usage: Value| {
        let data = json!({
            "id": context.id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": context.model(),
            "choices": choices,
            "usage": usage,
        });
        StreamItem::Event(None, data)
    };
    let delta = |delta: Value, finish: Option<&str>| {
        event(
            json!([{"index": 0, "delta": delta, "finish_reason": finish}]),
            Value::Null,
        )
    };
    let mut out = vec![delta(json!({"role": "assistant", "content": ""}), None)];
    let mut calls = 0;
    for part in &context.plan.parts {
        match part {
            ReplyPart::Text(chunks) | ReplyPart::Thought(chunks) => {
                let key = match part {
                    ReplyPart::Text(_) => "content",
                    _ => "reasoning_content",
                };
                for chunk in chunks {
                    if !chunk.wait.is_zero() {
                        out.push(StreamItem::Wait(chunk.wait));
                    }
                    out.push(delta(json!({key: chunk.text}), None));
                }
            }
            ReplyPart::Call { name, args, .. } => {
                let id = context.call_id("call_", calls);
                let function = json!({"name": name, "arguments": ""});
                let start =
                    json!({"index": calls, "id": id, "type": "function", "function": function});
                out.push(delta(json!({"tool_calls": [start]}), None));
                let rest = json!({"index": calls, "function": {"arguments": arguments(args)}});
                out.push(delta(json!({"tool_calls": [rest]}), None));
                calls += 1;
            }
            ReplyPart::Pause(pause) => out.push(StreamItem::Wait(*pause)),
            ReplyPart::Break(how) => {
                out.push(StreamItem::Break(how.clone()));
                return out;
            }
            ReplyPart::Error(error) => {
                out.push(StreamItem::Event(
                    None,
                    openai_error(error.status, &error.message),
                ));
                return out;
            }
        }
    }
    out.push(delta(json!({}), Some(finish_reason(context))));
    if context.request.stream_usage {
        out.push(event(json!([]), usage(context)));
    }
    out.push(StreamItem::Done);
    out
}
