//! Converts YAML text to a `Script`.

use regress::Regex;
use serde_json::Value as Json;

use super::script::{Candidate, Chunks, Fault, Name, Rule, Script, Step, Stop, Text, When};
use agentproto_manifest::fields::{self, Mistake, Notes};
use agentproto_manifest::{Node, Span, Value};
use agentproto_text::{closest_of, one_of};

/// First value of a script file, which distinguishes it from other YAML files.
pub const FORMAT: &str = "agentproto.model-script/v1";

const STEPS: [&str; 8] = [
    "text", "thought", "call", "usage", "stop", "error", "delay_ms", "hang",
];
/// Maximum number of chunks, so that a typo in a script does not fill the memory.
const MOST_CHUNKS: usize = 100_000;
const LONGEST_PAUSE_MS: u64 = 3_600_000;

/// Parses a script, or returns all its mistakes.
pub fn parse(text: &str) -> Result<Script, Vec<Mistake>> {
    let what = "a model script must be a mapping with `script`, `name` and `rules`";
    fields::read(text, what, script)
}

fn script(root: &Node, notes: &mut Notes) -> Script {
    let what = "a model script";
    notes.keys(root, what, &["script", "name", "description", "rules"]);
    let format = notes.need(root, "script", what);
    if let Some(node) = root.get("script")
        && format != FORMAT
    {
        notes.wrong(node.span, format!("`script` must be `{FORMAT}`"));
    }
    if !root.has("rules") {
        notes.wrong(root.span, "a model script needs `rules`");
    }
    let items = notes.items(root, "rules");
    Script {
        name: notes.need(root, "name", what),
        description: notes.string(root, "description").unwrap_or_default(),
        rules: items.iter().map(|node| rule(node, notes)).collect(),
    }
}

fn rule(node: &Node, notes: &mut Notes) -> Rule {
    notes.keys(node, "a rule", &["when", "times", "reply"]);
    if node.is_map() && !node.has("reply") {
        notes.wrong(node.span, "a rule needs `reply`");
    }
    let any = When {
        text: Text::Any,
        tool_result: false,
    };
    let times = notes.number(node, "times", 1, u64::from(u32::MAX));
    let items = notes.items(node, "reply");
    Rule {
        when: node.get("when").map_or(any, |when| self::when(when, notes)),
        times: times.and_then(|n| u32::try_from(n).ok()),
        reply: items
            .iter()
            .filter_map(|step| self::step(step, notes))
            .collect(),
    }
}

fn when(node: &Node, notes: &mut Notes) -> When {
    if node.as_str() == Some("any") {
        return When {
            text: Text::Any,
            tool_result: false,
        };
    }
    if !node.is_map() || node.entries().is_empty() {
        notes.wrong(
            node.span,
            "`when` must be `any`, or a mapping with `contains` or `regex`, `tool_result`, or both",
        );
    } else {
        notes.keys(node, "`when`", &["contains", "regex", "tool_result"]);
    }
    if node.has("contains") && node.has("regex") {
        notes.wrong(
            node.span,
            "`when` must not have both `contains` and `regex`",
        );
    }
    let text = if let Some(part) = notes.string(node, "contains") {
        Text::Contains(part)
    } else if let Some(pattern) = notes.string(node, "regex") {
        let span = node.get("regex").map_or(node.span, |value| value.span);
        regex(&pattern, span, notes).map_or(Text::Any, Text::Regex)
    } else {
        Text::Any
    };
    When {
        text,
        tool_result: notes.flag(node, "tool_result", false),
    }
}

fn regex(pattern: &str, span: Span, notes: &mut Notes) -> Option<Box<Regex>> {
    match Regex::new(pattern) {
        Ok(regex) => Some(Box::new(regex)),
        Err(error) => {
            notes.wrong(
                span,
                format!("not a valid ECMAScript regular expression: {error}"),
            );
            None
        }
    }
}

fn step(node: &Node, notes: &mut Notes) -> Option<Step> {
    let [entry] = node.entries() else {
        notes.wrong(
            node.span,
            "a step of a reply must be a mapping with one key, such as `text: hello`",
        );
        return None;
    };
    let (name, value) = (entry.key.as_str(), &entry.value);
    Some(match name {
        "text" => Step::Text(chunks(value, name, notes)),
        "thought" => Step::Thought(chunks(value, name, notes)),
        "call" => Step::Call(candidates(node, value, notes)),
        "usage" => {
            notes.keys(value, "`usage`", &["input", "output"]);
            let most = u64::from(u32::MAX);
            Step::Usage {
                input: notes.number(value, "input", 0, most).unwrap_or(0),
                output: notes.number(value, "output", 0, most).unwrap_or(0),
            }
        }
        "stop" => Step::Stop(stop(node, notes)),
        "error" => Step::Error(fault(value, notes)),
        "delay_ms" => Step::DelayMs(notes.number_in(value, name, 0, LONGEST_PAUSE_MS)?),
        "hang" => {
            if !value.is_true() {
                notes.wrong(value.span, "`hang` must be true");
            }
            Step::Hang
        }
        _ => {
            let hint = match closest_of(name, STEPS) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("expected {}", one_of(&STEPS)),
            };
            notes.wrong(entry.key_span, format!("unknown step `{name}`; {hint}"));
            return None;
        }
    })
}

fn chunks(value: &Node, name: &str, notes: &mut Notes) -> Chunks {
    let plain = |chunks| Chunks {
        chunks,
        every_ms: 0,
        repeat: 1,
    };
    if !value.is_map() {
        return plain(notes.texts(value, name));
    }
    notes.keys(
        value,
        &format!("`{name}`"),
        &["chunks", "every_ms", "repeat"],
    );
    if !value.has("chunks") {
        notes.wrong(value.span, format!("`{name}` needs `chunks`"));
    }
    let every = notes.number(value, "every_ms", 0, LONGEST_PAUSE_MS);
    let repeat = notes.number(value, "repeat", 1, MOST_CHUNKS as u64);
    let found = Chunks {
        chunks: notes.list(value, "chunks"),
        every_ms: every.unwrap_or(0),
        repeat: repeat.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
    };
    if found.chunks.len().saturating_mul(found.repeat as usize) > MOST_CHUNKS {
        notes.wrong(value.span, format!("more than {MOST_CHUNKS} chunks"));
        return plain(Vec::new());
    }
    found
}

fn candidates(node: &Node, value: &Node, notes: &mut Notes) -> Vec<Candidate> {
    if value.is_map() {
        return vec![candidate(value, notes)];
    }
    let items = notes.items(node, "call");
    if value.is_seq() && items.is_empty() {
        notes.wrong(value.span, "`call` needs at least one tool");
    }
    items.iter().map(|item| candidate(item, notes)).collect()
}

fn candidate(node: &Node, notes: &mut Notes) -> Candidate {
    notes.keys(node, "a tool call", &["tool", "args"]);
    if node.is_map() && !node.has("tool") {
        notes.wrong(node.span, "a tool call needs `tool`");
    }
    let mut names = Vec::new();
    for text in notes.list(node, "tool") {
        let pattern = text.strip_prefix('/').and_then(|t| t.strip_suffix('/'));
        let span = node.get("tool").map_or(node.span, |value| value.span);
        match pattern {
            Some(pattern) => names.extend(regex(pattern, span, notes).map(Name::Pattern)),
            None => names.push(Name::Exact(text)),
        }
    }
    if let Some(args) = node.get("args")
        && !matches!(args.value, Value::Map(_) | Value::Str(_))
    {
        notes.wrong(
            args.span,
            "`args` must be a mapping, or a string for a free-form tool",
        );
    }
    let args = notes.json(node, "args");
    Candidate {
        names,
        args: args.unwrap_or_else(|| Json::Object(serde_json::Map::new())),
    }
}

fn stop(node: &Node, notes: &mut Notes) -> Stop {
    let words = Stop::ALL.map(|(word, _)| word);
    let word = notes.word(node, "stop", "end_turn", &words);
    let found = Stop::ALL.iter().find(|(known, _)| *known == word);
    found.map_or(Stop::EndTurn, |(_, stop)| *stop)
}

fn fault(value: &Node, notes: &mut Notes) -> Fault {
    let status = |number: Option<u64>| {
        let number = number.and_then(|n| u16::try_from(n).ok());
        number.unwrap_or(500)
    };
    let (status, message) = if value.is_map() {
        notes.keys(value, "`error`", &["status", "message"]);
        if !value.has("status") {
            notes.wrong(value.span, "`error` needs `status`");
        }
        let number = notes.number(value, "status", 400, 599);
        (status(number), notes.string(value, "message"))
    } else {
        (status(notes.number_in(value, "error", 400, 599)), None)
    };
    let message = message.unwrap_or_else(|| format!("the script requests status {status}"));
    Fault { status, message }
}
