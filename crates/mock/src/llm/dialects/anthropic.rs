//! Anthropic Messages.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Out, Telling};
use crate::llm::plan::{Chunk, Part, joined};
use crate::llm::script::Stop;

fn stop_reason(telling: &Telling) -> &'static str {
    match telling.plan.stop {
        Stop::MaxTokens => "max_tokens",
        Stop::Refusal => "refusal",
        Stop::EndTurn if telling.plan.calls() => "tool_use",
        Stop::EndTurn => "end_turn",
    }
}

fn message(telling: &Telling, content: Vec<Value>, stop: Option<&str>, output: u64) -> Value {
    json!({
        "id": telling.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": telling.model(),
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
        "usage": {
            "input_tokens": telling.plan.input,
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

pub fn whole(telling: &Telling) -> Value {
    let mut content = Vec::new();
    for part in &telling.plan.parts {
        match part {
            Part::Text(chunks) => content.push(json!({"type": "text", "text": joined(chunks)})),
            Part::Thought(chunks) => content.push(
                json!({"type": "thinking", "thinking": joined(chunks), "signature": "bW9jaw=="}),
            ),
            Part::Call { name, args, .. } => content.push(json!({
                "type": "tool_use",
                "id": telling.call_id("toolu_", content.len()),
                "name": name,
                "input": input(args),
            })),
            Part::Pause(_) | Part::Hang | Part::Error(_) => {}
        }
    }
    message(
        telling,
        content,
        Some(stop_reason(telling)),
        telling.plan.output,
    )
}

pub fn stream(telling: &Telling) -> Vec<Out> {
    let mut out = Events(Vec::new(), 0);
    out.push(
        "message_start",
        json!({"message": message(telling, Vec::new(), None, 1)}),
    );
    out.push("ping", json!({}));
    for part in &telling.plan.parts {
        match part {
            Part::Text(chunks) => {
                out.open(json!({"type": "text", "text": ""}));
                out.deltas(chunks, |text| json!({"type": "text_delta", "text": text}));
                out.close();
            }
            Part::Thought(chunks) => {
                out.open(json!({"type": "thinking", "thinking": "", "signature": ""}));
                out.deltas(
                    chunks,
                    |text| json!({"type": "thinking_delta", "thinking": text}),
                );
                out.delta(json!({"type": "signature_delta", "signature": "bW9jaw=="}));
                out.close();
            }
            Part::Call { name, args, .. } => {
                let id = telling.call_id("toolu_", out.1);
                out.open(json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                let text = input(args).to_string();
                out.delta(json!({"type": "input_json_delta", "partial_json": text}));
                out.close();
            }
            Part::Pause(pause) => out.wait(*pause),
            Part::Hang => {
                out.0.push(Out::Hang);
                return out.0;
            }
            Part::Error(fault) => {
                let error = error(fault.status, &fault.message);
                out.0.push(Out::Event(Some("error"), error));
                return out.0;
            }
        }
    }
    out.push(
        "message_delta",
        json!({
            "delta": {"stop_reason": stop_reason(telling), "stop_sequence": null},
            "usage": {"input_tokens": telling.plan.input, "output_tokens": telling.plan.output},
        }),
    );
    out.push("message_stop", json!({}));
    out.0
}

/// The events, and the index of the next content block.
struct Events(Vec<Out>, usize);

impl Events {
    fn push(&mut self, name: &'static str, rest: Value) {
        let mut data = json!({"type": name});
        if let (Value::Object(data), Value::Object(rest)) = (&mut data, rest) {
            data.extend(rest);
        }
        self.0.push(Out::Event(Some(name), data));
    }

    fn wait(&mut self, pause: Duration) {
        if !pause.is_zero() {
            self.0.push(Out::Wait(pause));
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

    fn deltas(&mut self, chunks: &[Chunk], delta: impl Fn(&str) -> Value) {
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
