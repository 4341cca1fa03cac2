//! Conforming AOI tools that behave differently from the default one.

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::aoi::schema_case;
use crate::aoi::twist::{Facts, Frame, Notes, Quirk, Twist};

/// AOI tool that behaves unusually but conforms.
pub struct Bent {
    /// Ids of the checks that may warn about this variant.
    pub warns: &'static [&'static str],
    pub(crate) twists: Vec<Twist>,
}

pub type Variant = crate::model::Variant<Bent>;

fn bent(name: &'static str, what: &'static str, twist: Twist) -> Variant {
    let made = Bent {
        warns: &[],
        twists: vec![twist],
    };
    Variant { name, what, made }
}

impl Variant {
    fn and(mut self, twist: Twist) -> Variant {
        self.made.twists.push(twist);
        self
    }
    fn warns(mut self, rules: &'static [&'static str]) -> Variant {
        self.made.warns = rules;
        self
    }
}

pub static VARIANTS: LazyLock<Vec<Variant>> = LazyLock::new(|| {
    vec![
        bent(
            "sorted-keys",
            "The fields of an event are in alphabetical order.",
            Twist::Quirk(Quirk::Sorted),
        ),
        bent(
            "reversed-keys",
            "The type is the last field of an event.",
            Twist::Quirk(Quirk::Reversed),
        ),
        bent(
            "spaced",
            "There are spaces around colons and commas.",
            Twist::Quirk(Quirk::Spaced),
        ),
        bent(
            "escaped",
            "Every character is written as an escape sequence.",
            Twist::Quirk(Quirk::Escaped),
        ),
        bent(
            "minimal-summary",
            "The summary has only required fields.",
            Twist::Event(Box::new(minimal_summary)),
        ),
        bent(
            "extra-fields",
            "Events have unknown additional fields.",
            Twist::Event(Box::new(extra_fields)),
        ),
        bent(
            "format-flag",
            "The output is chosen with `--format`, and there is no `--output`.",
            Twist::Quirk(Quirk::FormatFlag),
        ),
        bent(
            "human-default",
            "The default output is human-readable.",
            Twist::Quirk(Quirk::HumanDefault),
        ),
        bent(
            "chatty",
            "It writes colored log lines to stderr.",
            Twist::Start(Box::new(|_| {
                let words = "\u{1b}[2m12:00:00\u{1b}[0m INFO mock-aoi – reading its cache ✓\n";
                let _ = std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes());
                None
            })),
        ),
        bent(
            "slow-start",
            "It waits for 400 ms before it starts.",
            Twist::Start(Box::new(|_| {
                std::thread::sleep(Duration::from_millis(400));
                None
            })),
        ),
        bent(
            "summary-text",
            "Searches end with a custom event `summary_text`.",
            Twist::Event(Box::new(summary_text)),
        )
        .and(Twist::Document(Box::new(declare_summary_text))),
        bent(
            "unicode",
            "Titles and messages contain characters of many scripts.",
            Twist::Event(Box::new(unicode)),
        ),
        bent(
            "bare",
            "It has no optional features: no cursor, no dry run, no idempotency key, no limit.",
            Twist::Args(Box::new(refuse_options)),
        )
        .and(Twist::Document(Box::new(declare_no_options)))
        .warns(&["AOI-07.key", "AOI-adv.dry-run"]),
        bent(
            "schema-map",
            "The schema is a map from event types to schemas.",
            Twist::Document(Box::new(schema_map)),
        )
        .warns(&["AOI-01.schema-map"]),
        bent(
            "one-version",
            "There is only one schema version.",
            Twist::Quirk(Quirk::OneVersion),
        ),
        bent(
            "exit-120",
            "It exits with code 120 when the pipe closes, and writes nothing.",
            Twist::Pipe(Box::new(|_| 120)),
        )
        .warns(&["AOI-10.pipe-exit"]),
        bent(
            "dies-of-a-closed-pipe",
            "It is killed by SIGPIPE when the pipe closes, as most tools are.",
            Twist::Pipe(Box::new(|_| crate::aoi::die_by(libc::SIGPIPE))),
        ),
    ]
});

fn kind(event: &Value) -> &str {
    event
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn send(event: Value) -> Vec<Frame> {
    vec![Frame::Json(event)]
}

/// Keeps the fields that every summary needs, and those about pages, idempotency keys and
/// interruptions.
fn minimal_summary(_: &Facts, _: &mut Notes, event: Value) -> Vec<Frame> {
    match event {
        Value::Object(fields) if fields.get("type") == Some(&Value::from("aoi:summary")) => {
            let needed = |name: &str, value: &Value| match name {
                "type" | "ok" | "reason" | "replayed" => true,
                "truncated" | "partial" => value == &Value::Bool(true),
                "next_cursor" => value.is_string(),
                _ => false,
            };
            let kept = fields
                .into_iter()
                .filter(|(name, value)| needed(name, value));
            send(Value::Object(kept.collect()))
        }
        event => send(event),
    }
}

fn extra_fields(_: &Facts, _: &mut Notes, mut event: Value) -> Vec<Frame> {
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
fn summary_text(facts: &Facts, _: &mut Notes, mut event: Value) -> Vec<Frame> {
    if facts.command != "search"
        || kind(&event) != "aoi:summary"
        || facts.failure.is_some()
        || facts.signal.is_some()
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
    vec![Frame::Json(text), Frame::Json(event)]
}

fn declare_summary_text(_: &Facts, mut document: Value) -> Frame {
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
    Frame::Json(document)
}

fn unicode(_: &Facts, _: &mut Notes, mut event: Value) -> Vec<Frame> {
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

fn declare_no_options(_: &Facts, mut document: Value) -> Frame {
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
    Frame::Json(document)
}

fn schema_map(_: &Facts, document: Value) -> Frame {
    let kinds = document.get("$defs").and_then(Value::as_object);
    let Some(kinds) = kinds.filter(|_| document.get("allOf").is_some()) else {
        return Frame::Json(document);
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
    Frame::Json(Value::Object(map))
}
