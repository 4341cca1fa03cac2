//! Converts YAML text to a `Script`.

use regress::Regex;
use serde_json::Value as Json;

use super::script::{
    Breakage, Candidate, Chunks, ModelError, Name, ReplyStep, RuleCondition, Script, ScriptRule,
    StopReason, TextCondition,
};
use agentproto_manifest::fields::{self, FieldError, FieldReader};
use agentproto_manifest::{Node, Span, Value};
use agentproto_text::{closest_of, one_of};

/// First value of a script file, which distinguishes it from other YAML files.
pub const FORMAT: &str = "agentproto.model-script/v1";

const STEPS: [&str; 10] = [
    "text", "thought", "call", "usage", "stop", "error", "delay_ms", "hang", "cut", "garbage",
];
/// Maximum number of chunks, so that a typo in a script does not fill the memory.
const MAX_CHUNKS: usize = 100_000;
const MAX_PAUSE_MS: u64 = 3_600_000;

/// Parses a script, or returns all its mistakes.
pub fn parse(text: &str) -> Result<Script, Vec<FieldError>> {
    let what = "a model script must be a mapping with `script`, `name` and `rules`";
    fields::read(text, what, script)
}

fn script(root: &Node, reader: &mut FieldReader) -> Script {
    let what = "a model script";
    reader.check_keys(root, what, &["script", "name", "description", "rules"]);
    let format = reader.required_string(root, "script", what);
    if let Some(node) = root.get("script")
        && format != FORMAT
    {
        reader.error(node.span, format!("`script` must be `{FORMAT}`"));
    }
    if !root.has("rules") {
        reader.error(root.span, "a model script needs `rules`");
    }
    let items = reader.items(root, "rules");
    Script {
        name: reader.required_string(root, "name", what),
        description: reader.string(root, "description").unwrap_or_default(),
        rules: items.iter().map(|node| rule(node, reader)).collect(),
    }
}

fn rule(node: &Node, reader: &mut FieldReader) -> ScriptRule {
    reader.check_keys(node, "a rule", &["when", "times", "reply"]);
    if node.is_map() && !node.has("reply") {
        reader.error(node.span, "a rule needs `reply`");
    }
    let any = RuleCondition {
        text: TextCondition::Any,
        tool_result: false,
    };
    let times = reader.number(node, "times", 1, u64::from(u32::MAX));
    let items = reader.items(node, "reply");
    ScriptRule {
        when: node
            .get("when")
            .map_or(any, |when| self::when(when, reader)),
        times: times.and_then(|n| u32::try_from(n).ok()),
        reply: items
            .iter()
            .filter_map(|step| self::step(step, reader))
            .collect(),
    }
}

fn when(node: &Node, reader: &mut FieldReader) -> RuleCondition {
    if node.as_str() == Some("any") {
        return RuleCondition {
            text: TextCondition::Any,
            tool_result: false,
        };
    }
    if !node.is_map() || node.entries().is_empty() {
        reader.error(
            node.span,
            "`when` must be `any`, or a mapping with `contains` or `regex`, `tool_result`, or both",
        );
    } else {
        reader.check_keys(node, "`when`", &["contains", "regex", "tool_result"]);
    }
    if node.has("contains") && node.has("regex") {
        reader.error(
            node.span,
            "`when` must not have both `contains` and `regex`",
        );
    }
    let text = if let Some(part) = reader.string(node, "contains") {
        TextCondition::Contains(part)
    } else if let Some(pattern) = reader.string(node, "regex") {
        let span = node.get("regex").map_or(node.span, |value| value.span);
        regex(&pattern, span, reader).map_or(TextCondition::Any, TextCondition::Regex)
    } else {
        TextCondition::Any
    };
    RuleCondition {
        text,
        tool_result: reader.bool_or(node, "tool_result", false),
    }
}

fn regex(pattern: &str, span: Span, reader: &mut FieldReader) -> Option<Box<Regex>> {
    match Regex::new(pattern) {
        Ok(regex) => Some(Box::new(regex)),
        Err(error) => {
            reader.error(
                span,
                format!("not a valid ECMAScript regular expression: {error}"),
            );
            None
        }
    }
}

fn step(node: &Node, reader: &mut FieldReader) -> Option<ReplyStep> {
    let [entry] = node.entries() else {
        reader.error(
            node.span,
            "a step of a reply must be a mapping with one key, such as `text: hello`",
        );
        return None;
    };
    let (name, value) = (entry.key.as_str(), &entry.value);
    Some(match name {
        "text" => ReplyStep::Text(chunks(value, name, reader)),
        "thought" => ReplyStep::Thought(chunks(value, name, reader)),
        "call" => ReplyStep::Call(candidates(node, value, reader)),
        "usage" => {
            reader.check_keys(value, "`usage`", &["input", "output"]);
            let most = u64::from(u32::MAX);
            ReplyStep::Usage {
                input: reader.number(value, "input", 0, most).unwrap_or(0),
                output: reader.number(value, "output", 0, most).unwrap_or(0),
            }
        }
        "stop" => ReplyStep::Stop(stop(node, reader)),
        "error" => ReplyStep::Error(error(value, reader)),
        "delay_ms" => ReplyStep::DelayMs(reader.number_in(value, name, 0, MAX_PAUSE_MS)?),
        "hang" => ReplyStep::Break(switch(value, name, Breakage::Hang, reader)),
        "cut" => ReplyStep::Break(switch(value, name, Breakage::Cut, reader)),
        "garbage" => {
            let text = reader.string(node, name).unwrap_or_default();
            ReplyStep::Break(Breakage::Garbage(text))
        }
        _ => {
            let hint = match closest_of(name, STEPS) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("expected {}", one_of(&STEPS)),
            };
            reader.error(entry.key_span, format!("unknown step `{name}`; {hint}"));
            return None;
        }
    })
}

/// Reads a step without an argument, which is written as `name: true`.
fn switch(value: &Node, name: &str, how: Breakage, reader: &mut FieldReader) -> Breakage {
    if !value.is_true() {
        reader.error(value.span, format!("`{name}` must be true"));
    }
    how
}

fn chunks(value: &Node, name: &str, reader: &mut FieldReader) -> Chunks {
    let plain = |chunks| Chunks {
        chunks,
        every_ms: 0,
        repeat: 1,
    };
    if !value.is_map() {
        return plain(reader.strings_in(value, name));
    }
    reader.check_keys(
        value,
        &format!("`{name}`"),
        &["chunks", "every_ms", "repeat"],
    );
    if !value.has("chunks") {
        reader.error(value.span, format!("`{name}` needs `chunks`"));
    }
    let every = reader.number(value, "every_ms", 0, MAX_PAUSE_MS);
    let repeat = reader.number(value, "repeat", 1, MAX_CHUNKS as u64);
    let found = Chunks {
        chunks: reader.strings(value, "chunks"),
        every_ms: every.unwrap_or(0),
        repeat: repeat.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
    };
    if found.chunks.len().saturating_mul(found.repeat as usize) > MAX_CHUNKS {
        reader.error(value.span, format!("more than {MAX_CHUNKS} chunks"));
        return plain(Vec::new());
    }
    found
}

fn candidates(node: &Node, value: &Node, reader: &mut FieldReader) -> Vec<Candidate> {
    if value.is_map() {
        return vec![candidate(value, reader)];
    }
    let items = reader.items(node, "call");
    if value.is_seq() && items.is_empty() {
        reader.error(value.span, "`call` needs at least one tool");
    }
    items.iter().map(|item| candidate(item, reader)).collect()
}

fn candidate(node: &Node, reader: &mut FieldReader) -> Candidate {
    reader.check_keys(node, "a tool call", &["tool", "args"]);
    if node.is_map() && !node.has("tool") {
        reader.error(node.span, "a tool call needs `tool`");
    }
    let mut names = Vec::new();
    for text in reader.strings(node, "tool") {
        let pattern = text.strip_prefix('/').and_then(|t| t.strip_suffix('/'));
        let span = node.get("tool").map_or(node.span, |value| value.span);
        match pattern {
            Some(pattern) => names.extend(regex(pattern, span, reader).map(Name::Pattern)),
            None => names.push(Name::Exact(text)),
        }
    }
    if let Some(args) = node.get("args")
        && !matches!(args.value, Value::Map(_) | Value::Str(_))
    {
        reader.error(
            args.span,
            "`args` must be a mapping, or a string for a free-form tool",
        );
    }
    let args = reader.json(node, "args");
    Candidate {
        names,
        args: args.unwrap_or_else(|| Json::Object(serde_json::Map::new())),
    }
}

fn stop(node: &Node, reader: &mut FieldReader) -> StopReason {
    let words = StopReason::ALL.map(|(word, _)| word);
    let word = reader.one_of(node, "stop", "end_turn", &words);
    let found = StopReason::ALL.iter().find(|(known, _)| *known == word);
    found.map_or(StopReason::EndTurn, |(_, stop)| *stop)
}

fn error(value: &Node, reader: &mut FieldReader) -> ModelError {
    let status = |number: Option<u64>| {
        let number = number.and_then(|n| u16::try_from(n).ok());
        number.unwrap_or(500)
    };
    let (status, message) = if value.is_map() {
        reader.check_keys(value, "`error`", &["status", "message"]);
        if !value.has("status") {
            reader.error(value.span, "`error` needs `status`");
        }
        let number = reader.number(value, "status", 400, 599);
        (status(number), reader.string(value, "message"))
    } else {
        (status(reader.number_in(value, "error", 400, 599)), None)
    };
    let message = message.unwrap_or_else(|| format!("the script requests status {status}"));
    ModelError { status, message }
}
