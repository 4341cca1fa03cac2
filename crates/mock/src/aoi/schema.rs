//! The schemas of the events, in both versions, and of the input.

use serde_json::{Map, Value, json};

use super::surface::{SCHEMA_NAME, VERSIONS};
use super::versions::{full, old_name};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Fields of an event type: name, schema, and whether it is required.
type Fields = Vec<(&'static str, Value, bool)>;

fn text() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

fn number() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn framework() -> Vec<(&'static str, Fields)> {
    let categories = json!([
        "usage",
        "validation",
        "authn",
        "authz",
        "not_found",
        "conflict",
        "rate_limited",
        "temporary",
        "timeout",
        "cancelled",
        "partial",
        "internal",
        "config",
        "io"
    ]);
    let version = json!({ "type": "string", "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+$" });
    vec![
        (
            "aoi:meta",
            vec![
                ("tool", text(), true),
                ("tool_version", version.clone(), true),
                ("aoi_version", json!({ "const": "0.2" }), true),
                ("schema_name", json!({ "const": SCHEMA_NAME }), true),
                ("schema_version", version, true),
                ("command", text(), true),
                ("trace_id", text(), false),
                ("timestamp", text(), false),
                ("endpoint", text(), false),
                ("input_mode", json!({ "const": "jsonl" }), false),
                ("continue_on_error", flag(), false),
                ("args_redacted", flag(), false),
            ],
        ),
        (
            "aoi:summary",
            vec![
                ("ok", flag(), true),
                ("count", number(), false),
                ("warning_count", number(), false),
                ("error_count", number(), false),
                ("partial", flag(), false),
                ("truncated", flag(), false),
                ("next_cursor", json!({ "type": ["string", "null"] }), false),
                ("elapsed_ms", number(), false),
                ("reason", text(), false),
                ("replayed", flag(), false),
                ("trace_id", text(), false),
            ],
        ),
        (
            "aoi:warning",
            vec![("code", text(), true), ("message", text(), true)],
        ),
        (
            "aoi:error",
            vec![
                ("category", json!({ "enum": categories }), true),
                (
                    "code",
                    json!({ "type": "string", "pattern": "^[A-Z][A-Z0-9_]*$" }),
                    true,
                ),
                ("message", text(), true),
                ("retryable", flag(), true),
                ("hint", text(), false),
                (
                    "line_number",
                    json!({ "type": "integer", "minimum": 1 }),
                    false,
                ),
            ],
        ),
        (
            "aoi:check",
            vec![
                ("name", text(), true),
                ("ok", flag(), true),
                (
                    "severity",
                    json!({ "enum": ["info", "warning", "error"] }),
                    true,
                ),
                ("detail", text(), false),
            ],
        ),
        (
            "aoi:plan",
            vec![("action", text(), true), ("target", text(), false)],
        ),
        (
            "aoi:progress",
            vec![("done", number(), true), ("total", number(), false)],
        ),
        ("aoi:heartbeat", vec![("timestamp", text(), false)]),
    ]
}

fn domain() -> Vec<(&'static str, Fields)> {
    let named = || vec![("id", text(), true), ("name", text(), true)];
    vec![
        (
            "hit",
            vec![
                ("rank", number(), true),
                ("id", text(), true),
                ("title", text(), true),
                ("snippet", text(), true),
                ("score", number(), true),
            ],
        ),
        ("entry", named()),
        ("created", named()),
        ("updated", named()),
        ("deleted", named()),
        (
            "ranked",
            vec![("rank", number(), true), ("id", text(), true)],
        ),
        ("tick", vec![("sequence", number(), true)]),
        (
            "document",
            vec![
                ("kind", text(), true),
                ("document", json!({ "type": "object" }), true),
            ],
        ),
    ]
}

fn definition(kind: &str, fields: Fields) -> Value {
    let mut properties = Map::new();
    properties.insert("type".to_owned(), json!({ "const": kind }));
    let mut required = vec!["type"];
    for (name, schema, is_required) in fields {
        properties.insert(name.to_owned(), schema);
        if is_required {
            required.push(name);
        }
    }
    json!({ "type": "object", "required": required, "properties": properties })
}

/// The event schema of a version. Unknown fields are allowed, so that later versions can add
/// fields.
pub fn events(major: u64) -> Value {
    let mut definitions = Map::new();
    for (kind, fields) in framework() {
        definitions.insert(kind.to_owned(), definition(kind, fields));
    }
    for (kind, fields) in domain() {
        let fields = match major {
            1 => fields.into_iter().filter_map(as_old).collect(),
            _ => fields,
        };
        definitions.insert(kind.to_owned(), definition(kind, fields));
    }
    let version = full(major).unwrap_or(VERSIONS[1]);
    let kinds: Vec<&String> = definitions.keys().collect();
    let cases: Vec<Value> = kinds.iter().map(|kind| case(kind)).collect();
    json!({
        "$schema": DIALECT,
        "$id": format!("https://schemas.example.com/mock-aoi/events/{version}/schema.json"),
        "title": format!("{SCHEMA_NAME} {version}"),
        "type": "object",
        "required": ["type"],
        "properties": { "type": { "enum": kinds } },
        "allOf": cases,
        "$defs": definitions,
    })
}

/// Applies the definition of one event type.
pub fn case(kind: &str) -> Value {
    json!({
        "if": { "properties": { "type": { "const": kind } }, "required": ["type"] },
        "then": { "$ref": format!("#/$defs/{kind}") },
    })
}

fn as_old(
    (name, schema, required): (&'static str, Value, bool),
) -> Option<(&'static str, Value, bool)> {
    old_name(name).map(|name| (name, schema, required))
}

/// The schema of a line on stdin. `import` is strict, to detect typos.
pub fn input(command: &str) -> Value {
    let id = format!("https://schemas.example.com/mock-aoi/input/{command}/schema.json");
    match command {
        "rank" => json!({
            "$schema": DIALECT,
            "$id": id,
            "title": "A line of an AOI stream. Hits are ranked, unknown types are ignored",
            "type": "object",
            "required": ["type"],
            "properties": { "type": text(), "id": text() },
            "if": { "properties": { "type": { "const": "hit" } } },
            "then": { "required": ["id"] },
        }),
        _ => json!({
            "$schema": DIALECT,
            "$id": id,
            "title": "An item to make",
            "type": "object",
            "required": ["name"],
            "properties": {
                "type": { "const": "item" },
                "name": text(),
                "note": { "type": "string" },
            },
            "additionalProperties": false,
        }),
    }
}
