//! OpenAI Responses.

use std::time::Duration;

use serde_json::{Value, json};

use super::{CREATED, ResponseContext, StreamItem, argument_text, free_text};
use crate::llm::plan::{ReplyPart, TimedChunk, joined};
use crate::llm::script::{ModelError, StopReason};

fn response(context: &ResponseContext, status: &str, output: &[Value]) -> Value {
    let (input, output_tokens) = (context.plan.input, context.plan.output);
    let over = status == "completed" || status == "incomplete";
    let usage = json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input.saturating_add(output_tokens),
    });
    let why = match context.plan.stop {
        StopReason::MaxTokens => json!({"reason": "max_output_tokens"}),
        StopReason::RpcError => json!({"reason": "content_filter"}),
        StopReason::EndTurn => Value::Null,
    };
    json!({
        "id": context.id("resp_"),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "model": context.model(),
        "output": output,
        "parallel_tool_calls": true,
        "tool_choice": "auto",
        "tools": [],
        "error": null,
        "incomplete_details": if over { why } else { Value::Null },
        "usage": if over { usage } else { Value::Null },
    })
}

fn end_status(context: &ResponseContext) -> &'static str {
    match context.plan.stop {
        StopReason::EndTurn => "completed",
        StopReason::MaxTokens | StopReason::RpcError => "incomplete",
    }
}

/// Item of the output in its final state.
fn item(context: &ResponseContext, index: usize, part: &ReplyPart) -> Option<Value> {
    let id = |prefix: &str| context.call_id(prefix, index);
    Some(match part {
        ReplyPart::Text(chunks) => json!({
            "type": "message",
            "id": id("msg_"),
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": joined(chunks), "annotations": []}],
        }),
        ReplyPart::Thought(chunks) => json!({
            "type": "reasoning",
            "id": id("rs_"),
            "summary": [{"type": "summary_text", "text": joined(chunks)}],
        }),
        ReplyPart::Call {
            name,
            free_form: true,
            args,
        } => json!({
            "type": "custom_tool_call",
            "id": id("ctc_"),
            "call_id": id("call_"),
            "status": "completed",
            "name": name,
            "input": free_text(args),
        }),
        ReplyPart::Call { name, args, .. } => json!({
            "type": "function_call",
            "id": id("fc_"),
            "call_id": id("call_"),
            "status": "completed",
            "name": name,
            "arguments": argument_text(args),
        }),
        ReplyPart::Pause(_) | ReplyPart::Break(_) | ReplyPart::Error(_) => return None,
    })
}

pub fn json_body(context: &ResponseContext) -> Value {
    let mut output = Vec::new();
    for part in &context.plan.parts {
        output.extend(item(context, output.len(), part));
    }
    response(context, end_status(context), &output)
}

pub fn stream(context: &ResponseContext) -> Vec<StreamItem> {
    let mut out = Events(Vec::new(), 0);
    let started = response(context, "in_progress", &[]);
    out.push("response.created", json!({"response": started}));
    out.push("response.in_progress", json!({"response": started}));
    let mut output: Vec<Value> = Vec::new();
    for part in &context.plan.parts {
        match part {
            ReplyPart::Pause(pause) => out.wait(*pause),
            ReplyPart::Break(how) => {
                out.0.push(StreamItem::Break(how.clone()));
                return out.0;
            }
            ReplyPart::Error(error) => {
                out.failed(context, &output, error);
                return out.0;
            }
            _ => {
                if let Some(item) = item(context, output.len(), part) {
                    out.item(output.len(), part, &item);
                    output.push(item);
                }
            }
        }
    }
    let status = end_status(context);
    let name = match status {
        "completed" => "response.completed",
        _ => "response.incomplete",
    };
    out.push(
        name,
        json!({"response": response(context, status, &output)}),
    );
    out.0
}

/// The events, and the sequence number of the next one.
struct Events(Vec<StreamItem>, u64);

impl Events {
    fn push(&mut self, name: &'static str, rest: Value) {
        let mut data = json!({"type": name, "sequence_number": self.1});
        if let (Value::Object(data), Value::Object(rest)) = (&mut data, rest) {
            data.extend(rest);
        }
        self.1 += 1;
        self.0.push(StreamItem::Event(Some(name), data));
    }

    fn wait(&mut self, pause: Duration) {
        if !pause.is_zero() {
            self.0.push(StreamItem::Wait(pause));
        }
    }

    /// Sends all events of an item. The first event has the item without its content.
    fn item(&mut self, index: usize, part: &ReplyPart, item: &Value) {
        let id = item.get("id").cloned().unwrap_or(Value::Null);
        let at = |rest: Value| {
            let mut all = json!({"item_id": id, "output_index": index});
            if let (Value::Object(all), Value::Object(rest)) = (&mut all, rest) {
                all.extend(rest);
            }
            all
        };
        let mut start = item.clone();
        if let Some(start) = start.as_object_mut() {
            for (key, empty) in [
                ("content", json!([])),
                ("summary", json!([])),
                ("arguments", json!("")),
                ("input", json!("")),
                ("status", json!("in_progress")),
            ] {
                if let Some(value) = start.get_mut(key) {
                    *value = empty;
                }
            }
        }
        let fields = json!({"output_index": index, "item": start});
        self.push("response.output_item.added", fields);
        match part {
            ReplyPart::Text(chunks) => {
                let part =
                    |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
                let text = joined(chunks);
                let first = at(json!({"content_index": 0, "part": part("")}));
                self.push("response.content_part.added", first);
                self.deltas("response.output_text.delta", chunks, |delta| {
                    at(json!({"content_index": 0, "delta": delta}))
                });
                let done = at(json!({"content_index": 0, "text": text}));
                self.push("response.output_text.done", done);
                let last = at(json!({"content_index": 0, "part": part(&text)}));
                self.push("response.content_part.done", last);
            }
            ReplyPart::Thought(chunks) => {
                let part = |text: &str| json!({"type": "summary_text", "text": text});
                let text = joined(chunks);
                let first = at(json!({"summary_index": 0, "part": part("")}));
                self.push("response.reasoning_summary_part.added", first);
                self.deltas("response.reasoning_summary_text.delta", chunks, |delta| {
                    at(json!({"summary_index": 0, "delta": delta}))
                });
                let done = at(json!({"summary_index": 0, "text": text}));
                self.push("response.reasoning_summary_text.done", done);
                let last = at(json!({"summary_index": 0, "part": part(&text)}));
                self.push("response.reasoning_summary_part.done", last);
            }
            ReplyPart::Call {
                free_form: true,
                args,
                ..
            } => {
                let text = free_text(args);
                let delta = at(json!({"delta": text}));
                self.push("response.custom_tool_call_input.delta", delta);
                let done = at(json!({"input": text}));
                self.push("response.custom_tool_call_input.done", done);
            }
            ReplyPart::Call { args, .. } => {
                let text = argument_text(args);
                let delta = at(json!({"delta": text}));
                self.push("response.function_call_arguments.delta", delta);
                let done = at(json!({"arguments": text}));
                self.push("response.function_call_arguments.done", done);
            }
            ReplyPart::Pause(_) | ReplyPart::Break(_) | ReplyPart::Error(_) => {}
        }
        let fields = json!({"output_index": index, "item": item});
        self.push("response.output_item.done", fields);
    }

    fn deltas(&mut self, name: &'static str, chunks: &[TimedChunk], event: impl Fn(&str) -> Value) {
        for chunk in chunks {
            self.wait(chunk.wait);
            self.push(name, event(&chunk.text));
        }
    }

    fn failed(&mut self, context: &ResponseContext, output: &[Value], error: &ModelError) {
        let mut failed = response(context, "failed", output);
        if let Some(failed) = failed.as_object_mut() {
            let code = match error.status {
                429 => "rate_limit_exceeded",
                503 | 529 => "server_is_overloaded",
                _ => "server_error",
            };
            let error = json!({"code": code, "message": error.message});
            failed.insert("error".to_owned(), error);
        }
        self.push("response.failed", json!({"response": failed}));
    }
}
