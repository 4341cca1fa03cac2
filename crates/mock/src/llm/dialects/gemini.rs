//! Gemini generateContent.

use serde_json::{Value, json};

use super::{Out, Telling};
use crate::llm::plan::{Part, joined};
use crate::llm::script::Stop;

fn finish_reason(telling: &Telling) -> &'static str {
    match telling.plan.stop {
        Stop::MaxTokens => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
        Stop::EndTurn => "STOP",
    }
}

fn answer(telling: &Telling, parts: Vec<Value>, finish: Option<&str>) -> Value {
    let (input, output) = (telling.plan.input, telling.plan.output);
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
        "modelVersion": telling.model(),
        "responseId": telling.id("resp-"),
    })
}

fn call(telling: &Telling, index: usize, name: &str, args: &Value) -> Value {
    let args = match args {
        Value::String(text) => json!({"input": text}),
        other => other.clone(),
    };
    json!({"functionCall": {"id": telling.call_id("call-", index), "name": name, "args": args}})
}

pub fn whole(telling: &Telling) -> Value {
    let mut parts = Vec::new();
    for part in &telling.plan.parts {
        match part {
            Part::Text(chunks) => parts.push(json!({"text": joined(chunks)})),
            Part::Thought(chunks) => parts.push(json!({"text": joined(chunks), "thought": true})),
            Part::Call { name, args, .. } => parts.push(call(telling, parts.len(), name, args)),
            Part::Pause(_) | Part::Hang | Part::Error(_) => {}
        }
    }
    answer(telling, parts, Some(finish_reason(telling)))
}

pub fn stream(telling: &Telling) -> Vec<Out> {
    let mut out = Vec::new();
    let mut calls = 0;
    for part in &telling.plan.parts {
        match part {
            Part::Text(chunks) | Part::Thought(chunks) => {
                for chunk in chunks {
                    if !chunk.wait.is_zero() {
                        out.push(Out::Wait(chunk.wait));
                    }
                    let piece = match part {
                        Part::Text(_) => json!({"text": chunk.text}),
                        _ => json!({"text": chunk.text, "thought": true}),
                    };
                    out.push(Out::Event(None, answer(telling, vec![piece], None)));
                }
            }
            Part::Call { name, args, .. } => {
                let piece = call(telling, calls, name, args);
                out.push(Out::Event(None, answer(telling, vec![piece], None)));
                calls += 1;
            }
            Part::Pause(pause) => out.push(Out::Wait(*pause)),
            Part::Hang => {
                out.push(Out::Hang);
                return out;
            }
            Part::Error(fault) => {
                out.push(Out::Event(None, error(fault.status, &fault.message)));
                return out;
            }
        }
    }
    let last = vec![json!({"text": ""})];
    out.push(Out::Event(
        None,
        answer(telling, last, Some(finish_reason(telling))),
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
