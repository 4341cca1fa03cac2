//! Combines a rule and a question into a reply, in parts that every dialect can send.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::request::ModelRequest;
use super::script::{Breakage, Candidate, Chunks, ModelError, ReplyStep, ScriptRule, StopReason};
use crate::scenario::{Placeholders, fill_placeholders};

/// Text of the reply if the request does not offer the tool of the script.
pub const NO_TOOL: &str = "no such tool";
/// Maximum depth of a sample value for a schema of the client.
const MAX_SAMPLE_DEPTH: usize = 16;

#[derive(Debug)]
pub struct ReplyPlan {
    pub parts: Vec<ReplyPart>,
    pub input: u64,
    pub output: u64,
    pub stop: StopReason,
}

#[derive(Debug)]
pub enum ReplyPart {
    Text(Vec<TimedChunk>),
    Thought(Vec<TimedChunk>),
    Call {
        name: String,
        free_form: bool,
        args: Value,
    },
    Pause(Duration),
    /// How the reply breaks off.
    Break(Breakage),
    /// Error that ends the reply.
    Error(ModelError),
}

/// Piece of text, and the time to wait before it is sent.
#[derive(Debug)]
pub struct TimedChunk {
    pub text: String,
    pub wait: Duration,
}

impl ReplyPlan {
    pub fn new(rule: Option<&ScriptRule>, request: &ModelRequest) -> ReplyPlan {
        let mut plan = ReplyPlan {
            parts: Vec::new(),
            input: request.tokens(),
            output: 0,
            stop: StopReason::EndTurn,
        };
        let steps = rule.map_or(&[][..], |rule| &rule.reply);
        let words = words(request);
        let mut usage = None;
        for step in steps {
            match step {
                ReplyStep::Text(text) => plan.parts.push(ReplyPart::Text(chunks(text, &words))),
                ReplyStep::Thought(text) => {
                    plan.parts.push(ReplyPart::Thought(chunks(text, &words)))
                }
                ReplyStep::Call(candidates) => plan.parts.push(call(candidates, request, &words)),
                ReplyStep::Usage { input, output } => usage = Some((*input, *output)),
                ReplyStep::Stop(stop) => plan.stop = *stop,
                ReplyStep::DelayMs(ms) => plan
                    .parts
                    .push(ReplyPart::Pause(Duration::from_millis(*ms))),
                ReplyStep::Error(error) => plan.parts.push(ReplyPart::Error(error.clone())),
                ReplyStep::Break(how) => plan.parts.push(ReplyPart::Break(how.clone())),
            }
        }
        // A client that requested JSON cannot read text.
        if let Some(schema) = &request.json
            && !plan
                .parts
                .iter()
                .any(|part| matches!(part, ReplyPart::Error(_) | ReplyPart::Break(_)))
        {
            let sample = sample(schema, MAX_SAMPLE_DEPTH).to_string();
            plan.parts = vec![text_part(sample)];
        }
        plan.output = plan.words().max(1);
        if let Some((input, output)) = usage {
            (plan.input, plan.output) = (input, output);
        }
        plan
    }

    fn words(&self) -> u64 {
        let bytes: usize = self.parts.iter().map(ReplyPart::bytes).sum();
        (bytes / 4) as u64
    }

    pub fn calls(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, ReplyPart::Call { .. }))
    }

    /// The error of a reply that has no content before it.
    pub fn leading_error(&self) -> Option<&ModelError> {
        let first = self
            .parts
            .iter()
            .find(|part| !matches!(part, ReplyPart::Pause(_)));
        match first {
            Some(ReplyPart::Error(error)) => Some(error),
            _ => None,
        }
    }

    /// Time until a response without streaming is sent, or `None` if it hangs.
    pub fn total_delay(&self) -> Option<Duration> {
        let mut total = Duration::ZERO;
        for part in &self.parts {
            total = total.saturating_add(match part {
                ReplyPart::Text(chunks) | ReplyPart::Thought(chunks) => {
                    chunks.iter().map(|chunk| chunk.wait).sum()
                }
                ReplyPart::Pause(pause) => *pause,
                ReplyPart::Break(Breakage::Hang) => return None,
                ReplyPart::Error(_) | ReplyPart::Break(_) => return Some(total),
                ReplyPart::Call { .. } => Duration::ZERO,
            });
        }
        Some(total)
    }
}

impl ReplyPart {
    fn bytes(&self) -> usize {
        match self {
            ReplyPart::Text(chunks) | ReplyPart::Thought(chunks) => {
                chunks.iter().map(|chunk| chunk.text.len()).sum()
            }
            ReplyPart::Call { name, args, .. } => name.len() + args.to_string().len(),
            ReplyPart::Pause(_) | ReplyPart::Break(_) | ReplyPart::Error(_) => 0,
        }
    }
}

/// All text of a part.
pub fn joined(chunks: &[TimedChunk]) -> String {
    chunks.iter().map(|chunk| chunk.text.as_str()).collect()
}

fn text_part(text: String) -> ReplyPart {
    let wait = Duration::ZERO;
    ReplyPart::Text(vec![TimedChunk { text, wait }])
}

fn words(request: &ModelRequest) -> Placeholders {
    let tools: Vec<&str> = request.tools.iter().map(|t| t.name.as_str()).collect();
    let prompt = request.prompt_texts().next().unwrap_or_default();
    let words = [
        ("cwd", request.cwd().to_owned()),
        ("prompt", prompt.to_owned()),
        ("earlier", request.earlier_texts().join(" | ")),
        ("result", request.result().to_owned()),
        ("tools", tools.join(" ")),
        ("model", request.model.clone()),
    ];
    words.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn chunks(chunks: &Chunks, words: &Placeholders) -> Vec<TimedChunk> {
    let every = Duration::from_millis(chunks.every_ms);
    let all = (0..chunks.repeat).flat_map(|_| &chunks.chunks);
    let timed = all.enumerate().map(|(index, text)| TimedChunk {
        text: fill_placeholders(text, words),
        wait: if index == 0 { Duration::ZERO } else { every },
    });
    timed.collect()
}

/// Calls the first candidate that the request offers, if possible with a tool that takes these
/// arguments. The order of the script decides, not that of the request.
fn call(candidates: &[Candidate], request: &ModelRequest, words: &Placeholders) -> ReplyPart {
    let offered = || {
        candidates.iter().flat_map(|candidate| {
            let named = candidate.names.iter().flat_map(|name| {
                let mut tools = request.tools.iter();
                tools.find(|tool| name.matches(&tool.name))
            });
            named.map(move |tool| (tool, candidate))
        })
    };
    let found = offered()
        .find(|(tool, candidate)| tool.takes(&candidate.args))
        .or_else(|| offered().next());
    match found {
        Some((tool, candidate)) => ReplyPart::Call {
            name: tool.name.clone(),
            free_form: tool.free_form,
            args: filled(&candidate.args, words),
        },
        None => text_part(NO_TOOL.to_owned()),
    }
}

/// Fills in the words in all strings of a value. The recursion is bounded, because the reader
/// limits the depth of scripts.
fn filled(value: &Value, words: &Placeholders) -> Value {
    match value {
        Value::String(text) => Value::String(fill_placeholders(text, words)),
        Value::Array(items) => items.iter().map(|item| filled(item, words)).collect(),
        Value::Object(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(key, value)| (key.clone(), filled(value, words)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Creates a value that matches a schema. It uses the first of several choices, but prefers `user`,
/// because a client that asks who speaks next would otherwise continue forever.
fn sample(schema: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        let user = choices.iter().find(|choice| *choice == "user");
        return user.or(choices.first()).cloned().unwrap_or(Value::Null);
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.to_ascii_lowercase(),
        Some(Value::Array(kinds)) => {
            let first = kinds.first().and_then(Value::as_str);
            first.unwrap_or_default().to_ascii_lowercase()
        }
        _ => "object".to_owned(),
    };
    match kind.as_str() {
        "string" => json!("mock"),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "boolean" => json!(false),
        "array" => json!([]),
        "null" => Value::Null,
        _ => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let properties = properties.into_iter().flatten();
            let properties =
                properties.map(|(key, schema)| (key.clone(), sample(schema, depth - 1)));
            Value::Object(properties.collect::<Map<_, _>>())
        }
    }
}
