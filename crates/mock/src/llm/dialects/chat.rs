//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{CREATED, Out, Telling, argument_text, openai_error};
use crate::llm::plan::{Part, joined};
use crate::llm::script::Stop;

fn finish_reason(telling: &Telling) -> &'static str {
    match telling.plan.stop {
        Stop::MaxTokens => "length",
        Stop::Refusal => "content_filter",
        Stop::EndTurn if telling.plan.calls() => "tool_calls",
        Stop::EndTurn => "stop",
    }
}

fn usage(telling: &Telling) -> Value {
    let (input, output) = (telling.plan.input, telling.plan.output);
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

pub fn whole(telling: &Telling) -> Value {
    let (mut text, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for part in &telling.plan.parts {
        match part {
            Part::Text(chunks) => text.push_str(&joined(chunks)),
            Part::Thought(chunks) => thought.push_str(&joined(chunks)),
            Part::Call { name, args, .. } => calls.push(json!({
                "id": telling.call_id("call_", calls.len()),
                "type": "function",
                "function": {"name": name, "arguments": arguments(args)},
            })),
            Part::Pause(_) | Part::Hang | Part::Error(_) => {}
        }
    }
    let said = !text.is_empty() || calls.is_empty();
    let mut message = json!({"role": "assistant", "content": said.then_some(text)});
    if let Some(message) = message.as_object_mut() {
        if !thought.is_empty() {
            message.insert("reasoning_content".to_owned(), json!(thought));
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), json!(calls));
        }
    }
    json!({
        "id": telling.id("chatcmpl-"),
        "object": "chat.completion",
        "created": CREATED,
        "model": telling.model(),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(telling)}],
        "usage": usage(telling),
    })
}

pub fn stream(telling: &Telling) -> Vec<Out> {
    let event = |choices: Value, usage: Value| {
        let data = json!({
            "id": telling.id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": telling.model(),
            "choices": choices,
            "usage": usage,
        });
        Out::Event(None, data)
    };
    let delta = |delta: Value, finish: Option<&str>| {
        event(
            json!([{"index": 0, "delta": delta, "finish_reason": finish}]),
            Value::Null,
        )
    };
    let mut out = vec![delta(json!({"role": "assistant", "content": ""}), None)];
    let mut calls = 0;
    for part in &telling.plan.parts {
        match part {
            Part::Text(chunks) | Part::Thought(chunks) => {
                let key = match part {
                    Part::Text(_) => "content",
                    _ => "reasoning_content",
                };
                for chunk in chunks {
                    if !chunk.wait.is_zero() {
                        out.push(Out::Wait(chunk.wait));
                    }
                    out.push(delta(json!({key: chunk.text}), None));
                }
            }
            Part::Call { name, args, .. } => {
                let id = telling.call_id("call_", calls);
                let function = json!({"name": name, "arguments": ""});
                let start =
                    json!({"index": calls, "id": id, "type": "function", "function": function});
                out.push(delta(json!({"tool_calls": [start]}), None));
                let rest = json!({"index": calls, "function": {"arguments": arguments(args)}});
                out.push(delta(json!({"tool_calls": [rest]}), None));
                calls += 1;
            }
            Part::Pause(pause) => out.push(Out::Wait(*pause)),
            Part::Hang => {
                out.push(Out::Hang);
                return out;
            }
            Part::Error(fault) => {
                out.push(Out::Event(None, openai_error(fault.status, &fault.message)));
                return out;
            }
        }
    }
    out.push(delta(json!({}), Some(finish_reason(telling))));
    if telling.question.stream_usage {
        out.push(event(json!([]), usage(telling)));
    }
    out.push(Out::Done);
    out
}
