//! A rule and a question → what is answered, in parts that every dialect can tell.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::ask::{Offered, Question};
use super::script::{Candidate, Chunks, Fault, Rule, Step, Stop};
use crate::scenario::{Words, fill};

/// What is said when the script wants a tool that the request does not offer.
pub const NO_TOOL: &str = "no such tool";
/// How deep a sample of somebody's schema goes.
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
    /// The end of the reply, in the middle of it.
    Error(Fault),
}

/// A piece of text, and how long it is waited before it.
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
        // Who asked for JSON cannot read words.
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

    /// The failure that comes before anything is said.
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

    /// How long an answer in one piece takes; none if it never comes.
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

/// Everything of a part at once.
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

/// The first candidate that is offered; its order is the script's, not the request's.
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

/// The same value with every word in its strings filled in. Scripts are shallow: their reader
/// bounds the depth.
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

/// A value of the kind that a schema asks for, with the first of what may be chosen; but `user`
/// where it is a choice: a client that asks who speaks next would else go on for ever.
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
