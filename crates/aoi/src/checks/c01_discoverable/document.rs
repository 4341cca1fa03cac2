//! The output of a discovery command.

use serde_json::Value;

use crate::canary;
use crate::schema::shortened;

#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    Json(Value),
    /// Events instead of the requested document: their number.
    Stream(usize),
    Empty,
    /// Anything else: its first line.
    Other(String),
}

/// Parses stdout as one JSON document. The second value is whether it contains escape sequences.
pub fn read(stdout: &[u8]) -> (Document, bool) {
    let coloured = stdout.contains(&0x1b);
    let bytes = match coloured {
        true => without_colours(stdout),
        false => stdout.to_vec(),
    };
    (parse(&bytes), coloured)
}

fn parse(bytes: &[u8]) -> Document {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Document::Empty;
    }
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        return match is_event(&value) {
            true => Document::Stream(1),
            false => Document::Json(value),
        };
    }
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    let event =
        |line: &&[u8]| serde_json::from_slice::<Value>(line).is_ok_and(|value| is_event(&value));
    if lines.first().is_some_and(event) {
        return Document::Stream(lines.len());
    }
    let first = lines.first().copied().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    Document::Other(shortened(&canary::masked(&first)))
}

/// Whether the value is a framework event. A schema has no such `type`.
fn is_event(value: &Value) -> bool {
    let kind = value.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.starts_with("aoi:"))
}

fn without_colours(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != 0x1b {
            out.push(byte);
            continue;
        }
        // An escape sequence is ESC, `[`, parameters and a final character.
        if rest.next() == Some(b'[') {
            let _ = rest.find(|byte| (0x40..=0x7e).contains(byte));
        }
    }
    out
}

/// Fields of a capability manifest that do not have the type that §17 shows.
pub fn odd_shape(manifest: &Value) -> Vec<String> {
    let mut odd = Vec::new();
    for key in ["tool", "tool_version"] {
        expect(manifest, key, "", "a non-empty string", is_text, &mut odd);
    }
    for key in ["aoi_versions", "outputs"] {
        expect(
            manifest,
            key,
            "",
            "a list of non-empty strings",
            is_texts,
            &mut odd,
        );
    }
    for (key, what) in [
        ("schemas", "a list of objects"),
        ("commands", "a list of objects"),
    ] {
        expect(manifest, key, "", what, is_objects, &mut odd);
    }
    for (index, schema) in list(manifest, "schemas").iter().enumerate() {
        let at = format!("schemas/{index}/");
        expect(schema, "name", &at, "a non-empty string", is_text, &mut odd);
        expect(
            schema,
            "versions",
            &at,
            "a list of non-empty strings",
            is_texts,
            &mut odd,
        );
        expect(
            schema,
            "default",
            &at,
            "a non-empty string",
            is_text,
            &mut odd,
        );
        if let (Some(default), Some(versions)) = (schema.get("default"), schema.get("versions"))
            && is_text(default)
            && is_texts(versions)
            && versions
                .as_array()
                .is_some_and(|all| !all.contains(default))
        {
            odd.push(format!("`{at}default` is not in `versions`"));
        }
    }
    for (index, command) in list(manifest, "commands").iter().enumerate() {
        let name = command.get("name").and_then(Value::as_str);
        let at = match name {
            Some(name) if !name.is_empty() => format!("commands/{name}/"),
            _ => {
                odd.push(format!("`commands/{index}` has no `name`"));
                format!("commands/{index}/")
            }
        };
        for key in [
            "read_only",
            "bounded",
            "supports_cursor",
            "destructive",
            "requires_confirm",
            "supports_dry_run",
            "supports_idempotency_key",
        ] {
            expect(
                command,
                key,
                &at,
                "true or false",
                Value::is_boolean,
                &mut odd,
            );
        }
        expect(
            command,
            "event_types",
            &at,
            "a list of non-empty strings",
            is_texts,
            &mut odd,
        );
    }
    odd
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn expect(
    value: &Value,
    key: &str,
    at: &str,
    what: &str,
    holds: fn(&Value) -> bool,
    odd: &mut Vec<String>,
) {
    if value.get(key).is_some_and(|found| !holds(found)) {
        odd.push(format!("`{at}{key}` is not {what}"));
    }
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(is_text))
}

fn is_objects(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|all| all.iter().all(Value::is_object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_streams_and_prose_are_distinguished() {
        let of = |text: &str| read(text.as_bytes());
        assert_eq!(of("{\"a\":1}\n"), (Document::Json(json!({"a": 1})), false));
        let coloured = "{\u{1b}[34m\"a\"\u{1b}[0m: 1}";
        assert_eq!(of(coloured), (Document::Json(json!({"a": 1})), true));
        let stream = "{\"type\":\"aoi:meta\"}\n{\"type\":\"x\"}\n";
        assert_eq!(of(stream), (Document::Stream(2), false));
        assert_eq!(of(" \n"), (Document::Empty, false));
        assert_eq!(of("hi\n{}\n").0, Document::Other("hi".to_owned()));
        assert_eq!(of("{}\n{}\n").0, Document::Other("{}".to_owned()));
        // A schema also has a `type`.
        assert!(matches!(of("{\"type\":\"object\"}").0, Document::Json(_)));
        assert_eq!(of("\u{1b}").0, Document::Empty);
        assert_eq!(of("\u{1b}[").0, Document::Empty);
    }

    /// AOI-17-01.
    #[test]
    fn a_manifest_as_in_the_spec_has_no_invalid_fields() {
        let good = json!({
            "tool": "outline", "tool_version": "1.8.2", "aoi_versions": ["0.2"],
            "outputs": ["jsonl"], "own": 1,
            "schemas": [{ "name": "a.b", "versions": ["1.0.0"], "default": "1.0.0" }],
            "commands": [{ "name": "search", "read_only": true, "event_types": ["hit"] }],
        });
        assert_eq!(odd_shape(&good), Vec::<String>::new());
        assert_eq!(odd_shape(&json!({})), Vec::<String>::new());
        for (pointer, odd) in [
            ("/tool", json!(3)),
            ("/aoi_versions", json!("0.2")),
            ("/schemas/0/versions", json!([1])),
            ("/schemas/0/default", json!("9.0.0")),
            ("/commands", json!({ "search": {} })),
            ("/commands/0/name", json!("")),
            ("/commands/0/read_only", json!("yes")),
            ("/commands/0/event_types", json!("hit")),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).expect("there") = odd;
            assert_eq!(odd_shape(&bad).len(), 1, "{pointer}: {:?}", odd_shape(&bad));
        }
    }
}
