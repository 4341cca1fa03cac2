//! Combines a rule and a question into a reply, in parts that every dialect can send.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::ask::{Offered, Question};
use super::script::{Candidate, Chunks, Fault, Rule, Step, Stop};
use crate::scenario::{Words, fill};

/// Text of the reply if the request does not offer the tool of the script.
pub const NO_TOOL: &str = "no such tool";
/// Maximum depth of a sample value for a schema of the client.
const DEEPEST_SAMPLE: usize = 16;

#[derive(Debug)]
pub struct Plan {
    pub parts: Vec<Part>,
    pub input: u64,
    pub output: u64,
    pub stop: Stop,
}

#[derive(Debug)]
pub enum Part {
    Text(Vec<Chunk>),
    Thought(Vec<Chunk>),
    Call {
        name: String,
        free_form: bool,
        args: Value,
    },
    Pause(Duration),
    Hang,
    /// Error that ends the reply.
    Error(Fault),
}

/// Piece of text, and the time to wait before it is sent.
#[derive(Debug)]
pub struct Chunk {
    pub text: String,
    pub wait: Duration,
}

impl Plan {
    pub fn new(rule: Option<&Rule>, question: &Question) -> Plan {
        let mut plan = Plan {
            parts: Vec::new(),
            input: question.tokens(),
            output: 0,
            stop: Stop::EndTurn,
        };
        let steps = rule.map_or(&[][..], |rule| &rule.reply);
        let words = words(question);
        let mut usage = None;
        for step in steps {
            match step {
                Step::Text(text) => plan.parts.push(Part::Text(chunks(text, &words))),
                Step::Thought(text) => plan.parts.push(Part::Thought(chunks(text, &words))),
                Step::Call(candidates) => plan.parts.push(call(candidates, question, &words)),
                Step::Usage { input, output } => usage = Some((*input, *output)),
                Step::Stop(stop) => plan.stop = *stop,
                Step::DelayMs(ms) => plan.parts.push(Part::Pause(Duration::from_millis(*ms))),
                Step::Error(fault) => plan.parts.push(Part::Error(fault.clone())),
                Step::Hang => plan.parts.push(Part::Hang),
            }
        }
        // A client that requested JSON cannot read text.
        if let Some(schema) = &question.json
            && !plan
                .parts
                .iter()
                .any(|part| matches!(part, Part::Error(_) | Part::Hang))
        {
            let sample = sample(schema, DEEPEST_SAMPLE).to_string();
            plan.parts = vec![said(sample)];
        }
        plan.output = plan.words().max(1);
        if let Some((input, output)) = usage {
            (plan.input, plan.output) = (input, output);
        }
        plan
    }

    fn words(&self) -> u64 {
        let bytes: usize = self.parts.iter().map(Part::bytes).sum();
        (bytes / 4) as u64
    }

    pub fn calls(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Call { .. }))
    }

    /// The error of a reply that has no content before it.
    pub fn refusal(&self) -> Option<&Fault> {
        let first = self
            .parts
            .iter()
            .find(|part| !matches!(part, Part::Pause(_)));
        match first {
            Some(Part::Error(fault)) => Some(fault),
            _ => None,
        }
    }

    /// Time until a response without streaming is sent, or `None` if it hangs.
    pub fn takes(&self) -> Option<Duration> {
        let mut total = Duration::ZERO;
        for part in &self.parts {
            total = total.saturating_add(match part {
                Part::Text(chunks) | Part::Thought(chunks) => {
                    chunks.iter().map(|chunk| chunk.wait).sum()
                }
                Part::Pause(pause) => *pause,
                Part::Hang => return None,
                Part::Error(_) => return Some(total),
                Part::Call { .. } => Duration::ZERO,
            });
        }
        Some(total)
    }
}

impl Part {
    fn bytes(&self) -> usize {
        match self {
            Part::Text(chunks) | Part::Thought(chunks) => {
                chunks.iter().map(|chunk| chunk.text.len()).sum()
            }
            Part::Call { name, args, .. } => name.len() + args.to_string().len(),
            Part::Pause(_) | Part::Hang | Part::Error(_) => 0,
        }
    }
}

/// All text of a part.
pub fn joined(chunks: &[Chunk]) -> String {
    chunks.iter().map(|chunk| chunk.text.as_str()).collect()
}

fn said(text: String) -> Part {
    let wait = Duration::ZERO;
    Part::Text(vec![Chunk { text, wait }])
}

fn words(question: &Question) -> Words {
    let tools: Vec<&str> = question.tools.iter().map(|t| t.name.as_str()).collect();
    let prompt = question.prompt_texts().next().unwrap_or_default();
    let words = [
        ("cwd", question.cwd().to_owned()),
        ("prompt", prompt.to_owned()),
        ("earlier", question.earlier_texts().join(" | ")),
        ("result", question.result().to_owned()),
        ("tools", tools.join(" ")),
        ("model", question.model.clone()),
    ];
    words.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn chunks(chunks: &Chunks, words: &Words) -> Vec<Chunk> {
    let every = Duration::from_millis(chunks.every_ms);
    let all = (0..chunks.repeat).flat_map(|_| &chunks.chunks);
    let timed = all.enumerate().map(|(index, text)| Chunk {
        text: fill(text, words),
        wait: if index == 0 { Duration::ZERO } else { every },
    });
    timed.collect()
}

/// Calls the first candidate that the request offers. The order of the script decides, not that of
/// the request.
fn call(candidates: &[Candidate], question: &Question, words: &Words) -> Part {
    let offered = |candidate: &Candidate| -> Option<Offered> {
        let tools = || question.tools.iter();
        let mut names = candidate.names.iter();
        let tool = names.find_map(|name| tools().find(|tool| name.fits(&tool.name)));
        tool.cloned()
    };
    let found = candidates
        .iter()
        .find_map(|candidate| Some((offered(candidate)?, candidate)));
    match found {
        Some((tool, candidate)) => Part::Call {
            name: tool.name,
            free_form: tool.free_form,
            args: filled(&candidate.args, words),
        },
        None => said(NO_TOOL.to_owned()),
    }
}

/// Fills in the words in all strings of a value. The recursion is bounded, because the reader
/// limits the depth of scripts.
fn filled(value: &Value, words: &Words) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text, words)),
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
