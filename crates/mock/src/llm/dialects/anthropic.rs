//! Anthropic Messages.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ResponseContext, StreamItem};
use crate::llm::plan::{ReplyPart, TimedChunk, joined};
use crate::llm::script::StopReason;

fn stop_reason(context: &ResponseContext) -> &'static str {
    match context.plan.stop {
        StopReason::MaxTokens => "max_tokens",
        StopReason::RpcError => "refusal",
        StopReason::EndTurn if context.plan.calls() => "tool_use",
        StopReason::EndTurn => "end_turn",
    }
}

fn message(
    context: &ResponseContext,
    content: Vec<Value>,
    stop: Option<&str>,
    output: u64,
) -> Value {
    json!({
        "id": context.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": context.model(),
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
        "usage": {
            "input_tokens": context.plan.input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output,
        },
    })
}

/// Input object of a call. There are no free-form tools in this dialect, so text becomes the only
/// argument.
fn input(args: &Value) -> Value {
    match args {
        Value::String(text) => json!({"input": text}),
        other => other.clone(),
    }
}

pub fn json_body(context: &ResponseContext) -> Value {
    let mut content = Vec::new();
    for part in &context.plan.parts {
        match part {
            ReplyPart::Text(chunks) => {
                content.push(json!({"type": "text", "text": joined(chunks)}))
            }
            ReplyPart::Thought(chunks) => content.push(
                json!({"type": "thinking", "thinking": joined(chunks), "signature": "bW9jaw=="}),
            ),
            ReplyPart::Call { name, args, .. } => content.push(json!({
                "type": "tool_use",
                "id": context.call_id("toolu_", content.len()),
                "name": name,
                "input": input(args),
            })),
            ReplyPart::Pause(_) | ReplyPart::Break(_) | ReplyPart::Error(_) => {}
        }
    }
    message(
        context,
        content,
        Some(stop_reason(context)),
        context.plan.output,
    )
}

pub fn stream(context: &ResponseContext) -> Vec<StreamItem> {
    let mut out = Events(Vec::new(), 0);
    out.push(
        "message_start",
        json!({"message": message(context, Vec::new(), None, 1)}),
    );
    out.push("ping", json!({}));
    for part in &context.plan.parts {
        match part {
            ReplyPart::Text(chunks) => {
                out.open(json!({"type": "text", "text": ""}));
                out.deltas(chunks, |text| json!({"type": "text_delta", "text": text}));
                out.close();
            }
            ReplyPart::Thought(chunks) => {
                out.open(json!({"type": "thinking", "thinking": "", "signature": ""}));
                out.deltas(
                    chunks,
                    |text| json!({"type": "thinking_delta", "thinking": text}),
                );
                out.delta(json!({"type": "signature_delta", "signature": "bW9jaw=="}));
                out.close();
            }
            ReplyPart::Call { name, args, .. } => {
                let id = context.call_id("toolu_", out.1);
                out.open(json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                let text = input(args).to_string();
                out.delta(json!({"type": "input_json_delta", "partial_json": text}));
                out.close();
            }
            ReplyPart::Pause(pause) => out.wait(*pause),
            ReplyPart::Break(how) => {
                out.0.push(StreamItem::Break(how.clone()));
                return out.0;
            }
            ReplyPart::Error(failure) => {
                let error = error(failure.status, &failure.message);
                out.0.push(StreamItem::Event(Some("error"), error));
                return out.0;
            }
        }
    }
    out.push(
        "message_delta",
        json!({
            "delta": {"stop_reason": stop_reason(context), "stop_sequence": null},
            "usage": {"input_tokens": context.plan.input, "output_tokens": context.plan.output},
        }),
    );
    out.push("message_stop", json!({}));
    out.0
}

/// The events, and the index of the next content block.
struct Events(Vec<StreamItem>, usize);

impl Events {
    fn push(&mut self, name: &'static str, rest: Value) {
        let mut data = json!({"type": name});
        if let (Value::Object(data), Value::Object(rest)) = (&mut data, rest) {
            data.extend(rest);
        }
        self.0.push(StreamItem::Event(Some(name), data));
    }

    fn wait(&mut self, pause: Duration) {
        if !pause.is_zero() {
            self.0.push(StreamItem::Wait(pause));
        }
    }

    fn open(&mut self, block: Value) {
        let index = self.1;
        self.push(
            "content_block_start",
            json!({"index": index, "content_block": block}),
        );
    }

    fn delta(&mut self, delta: Value) {
        let index = self.1;
        self.push(
            "content_block_delta",
            json!({"index": index, "delta": delta}),
        );
    }

    fn deltas(&mut self, chunks: &[TimedChunk], delta: impl Fn(&str) -> Value) {
        for chunk in chunks {
            self.wait(chunk.wait);
            self.delta(delta(&chunk.text));
        }
    }

    fn close(&mut self) {
        let index = self.1;
        self.push("content_block_stop", json!({"index": index}));
        self.1 += 1;
    }
}

pub fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}
