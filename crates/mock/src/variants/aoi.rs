//! Conforming AOI tools that behave differently from the default one.

mod lenient;

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::aoi::changes::{Change, Counters, EventFrame, Quirk, RunInfo};
use crate::aoi::schema_case;

/// AOI tool that behaves unusually but conforms.
pub struct AoiVariation {
    /// Ids of the checks that may warn about this variant.
    pub expected_warnings: &'static [&'static str],
    pub(crate) changes: Vec<Change>,
}

/// Conforming variant of the AOI tool.
pub type AoiVariant = crate::model::Variant<AoiVariation>;

fn variant(name: &'static str, description: &'static str, change: Change) -> AoiVariant {
    let data = AoiVariation {
        expected_warnings: &[],
        changes: vec![change],
    };
    AoiVariant {
        name,
        description,
        data,
    }
}

impl AoiVariant {
    fn and(mut self, change: Change) -> AoiVariant {
        self.data.changes.push(change);
        self
    }
    fn expected_warnings(mut self, rules: &'static [&'static str]) -> AoiVariant {
        self.data.expected_warnings = rules;
        self
    }
}

/// All variants of the AOI tool.
pub static VARIANTS: LazyLock<Vec<AoiVariant>> = LazyLock::new(|| {
    vec![
        variant(
            "sorted-keys",
            "The fields of an event are in alphabetical order.",
            Change::Quirk(Quirk::Sorted),
        ),
        variant(
            "reversed-keys",
            "The type is the last field of an event.",
            Change::Quirk(Quirk::Reversed),
        ),
        variant(
            "spaced",
            "There are spaces around colons and commas.",
            Change::Quirk(Quirk::Spaced),
        ),
        variant(
            "escaped",
            "Every character is written as an escape sequence.",
            Change::Quirk(Quirk::Escaped),
        ),
        variant(
            "minimal-summary",
            "The summary has only required fields.",
            Change::Event(Box::new(minimal_summary)),
        ),
        variant(
            "extra-fields",
            "Events have unknown additional fields.",
            Change::Event(Box::new(extra_fields)),
        ),
        variant(
            "format-flag",
            "The output is chosen with `--format`, and there is no `--output`.",
            Change::Quirk(Quirk::FormatFlag),
        ),
        variant(
            "human-default",
            "The default output is human-readable.",
            Change::Quirk(Quirk::HumanDefault),
        ),
        variant(
            "chatty",
            "It writes colored log lines to stderr.",
            Change::Start(Box::new(|_| {
                let words = "\u{1b}[2m12:00:00\u{1b}[0m INFO mock-aoi – reading its cache ✓\n";
                let _ = std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes());
                None
            })),
        ),
        variant(
            "slow-start",
            "It waits for 400 ms before it starts.",
            Change::Start(Box::new(|_| {
                std::thread::sleep(Duration::from_millis(400));
                None
            })),
        ),
        variant(
            "summary-text",
            "Searches end with a custom event `summary_text`.",
            Change::Event(Box::new(summary_text)),
        )
        .and(Change::Document(Box::new(declare_summary_text))),
        variant(
            "unicode",
            "Titles and messages contain characters of many scripts.",
            Change::Event(Box::new(unicode)),
        ),
        variant(
            "bare",
            "It has no optional features: no cursor, no dry run, no idempotency key, no limit.",
            Change::Args(Box::new(refuse_options)),
        )
        .and(Change::Document(Box::new(declare_no_options)))
        .expected_warnings(&["AOI-07.key", "AOI-adv.dry-run"]),
        variant(
            "schema-map",
            "The schema is a map from event types to schemas.",
            Change::Document(Box::new(schema_map)),
        )
        .expected_warnings(&["AOI-01.schema-map"]),
        variant(
            "one-version",
            "There is only one schema version.",
            Change::Quirk(Quirk::OneVersion),
        ),
        variant(
            "exit-120",
            "It exits with code 120 when the pipe closes, and writes nothing.",
            Change::Pipe(Box::new(|_| 120)),
        )
        .expected_warnings(&["AOI-10.pipe-exit"]),
        variant(
            "dies-of-a-closed-pipe",
            "It is killed by SIGPIPE when the pipe closes, as most tools are.",
            Change::Pipe(Box::new(|_| crate::aoi::kill_self(libc::SIGPIPE))),
        ),
    ]
    .into_iter()
    .chain(lenient::variants())
    .collect()
});

fn kind(event: &Value) -> &str {
    event
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn send(event: Value) -> Vec<EventFrame> {
    vec![EventFrame::Json(event)]
}

/// Keeps the fields that every summary needs, and those about pages, idempotency keys and
/// interruptions.
fn minimal_summary(_: &RunInfo, _: &mut Counters, event: Value) -> Vec<EventFrame> {
    match event {
        Value::Object(fields) if fields.get("type") == Some(&Value::from("aoi:summary")) => {
            let needed = |name: &str, value: &Value| match name {
                "type" | "ok" | "reason" | "replayed" => true,
                "truncated" | "partial" => value == &Value::Bool(true),
                "next_cursor" => value.is_string(),
                _ => false,
            };
            let required = fields
                .into_iter()
                .filter(|(name, value)| needed(name, value));
            send(Value::Object(required.collect()))
        }
        event => send(event),
    }
}

fn extra_fields(_: &RunInfo, _: &mut Counters, mut event: Value) -> Vec<EventFrame> {
    if let Value::Object(fields) = &mut event {
        fields.insert(
            "x_build".to_owned(),
            json!({ "host": "ci", "parts": [1, null, true] }),
        );
        fields.insert("vendor:note".to_owned(), "kept".into());
    }
    send(event)
}

/// Adds one result before the summary, and counts it.
fn summary_text(info: &RunInfo, _: &mut Counters, mut event: Value) -> Vec<EventFrame> {
    if info.command != "search"
        || kind(&event) != "aoi:summary"
        || info.failure.is_some()
        || info.signal.is_some()
    {
        return send(event);
    }
    let count = event
        .get("count")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    if let Value::Object(fields) = &mut event {
        fields.insert("count".to_owned(), (count + 1).into());
    }
    let text = json!({ "type": "summary_text", "text": "All about agents, in short." });
    vec![EventFrame::Json(text), EventFrame::Json(event)]
}

fn declare_summary_text(_: &RunInfo, mut document: Value) -> EventFrame {
    let name = "summary_text";
    let schema = json!({
        "type": "object",
        "required": ["type", "text"],
        "properties": { "type": { "const": name }, "text": { "type": "string" } },
    });
    if let Some(Value::Object(kinds)) = document.pointer_mut("/$defs") {
        kinds.insert(name.to_owned(), schema);
    }
    if let Some(Value::Array(kinds)) = document.pointer_mut("/properties/type/enum") {
        kinds.push(name.into());
    }
    if let Some(Value::Array(cases)) = document.pointer_mut("/allOf") {
        cases.push(schema_case(name));
    }
    let commands = document.get_mut("commands").and_then(Value::as_array_mut);
    for command in commands.into_iter().flatten() {
        let is_search = command.get("name") == Some(&Value::from("search"));
        let kinds = command.get_mut("event_types").and_then(Value::as_array_mut);
        if let (true, Some(kinds)) = (is_search, kinds) {
            kinds.push(name.into());
        }
    }
    EventFrame::Json(document)
}

fn unicode(_: &RunInfo, _: &mut Counters, mut event: Value) -> Vec<EventFrame> {
    if let Value::Object(fields) = &mut event {
        for name in ["title", "snippet", "heading", "text", "message", "detail"] {
            if let Some(Value::String(text)) = fields.get_mut(name) {
                text.push_str(" – Ünïcödé, 数据, Δοκιμή, עברית, 🛰\u{fe0f}, \u{2028}e\u{301}");
            }
        }
    }
    send(event)
}

const OPTIONAL: [&str; 5] = [
    "--cursor",
    "--limit",
    "--dry-run",
    "--idempotency-key",
    "--confirm-count",
];

/// Renames the optional flags, so that the tool rejects them as unknown. `purge` requires a count,
/// so it is also rejected.
fn refuse_options(args: Vec<String>) -> Vec<String> {
    let unknown = |word: String| {
        let name = word.split('=').next().unwrap_or_default();
        match OPTIONAL.contains(&name) || name == "purge" {
            true => format!("--not-offered-{}", name.trim_start_matches('-')),
            false => word,
        }
    };
    args.into_iter().map(unknown).collect()
}

fn declare_no_options(_: &RunInfo, mut document: Value) -> EventFrame {
    let commands = document.get_mut("commands").and_then(Value::as_array_mut);
    if let Some(commands) = commands {
        commands.retain(|command| command.get("name") != Some(&Value::from("purge")));
        for command in commands.iter_mut().filter_map(Value::as_object_mut) {
            for claim in [
                "supports_cursor",
                "supports_limit",
                "supports_dry_run",
                "supports_idempotency_key",
            ] {
                command.shift_remove(claim);
            }
            if let Some(Value::Array(kinds)) = command.get_mut("event_types") {
                kinds.retain(|kind| kind != "aoi:plan");
            }
        }
    }
    EventFrame::Json(document)
}

fn schema_map(_: &RunInfo, document: Value) -> EventFrame {
    let kinds = document.get("$defs").and_then(Value::as_object);
    let Some(kinds) = kinds.filter(|_| document.get("allOf").is_some()) else {
        return EventFrame::Json(document);
    };
    let dialect = document.get("$schema").cloned().unwrap_or_default();
    let mut map = Map::new();
    for (kind, schema) in kinds {
        let mut schema = schema.clone();
        if let Value::Object(fields) = &mut schema {
            fields.insert("$schema".to_owned(), dialect.clone());
        }
        map.insert(kind.clone(), schema);
    }
    EventFrame::Json(Value::Object(map))
}
