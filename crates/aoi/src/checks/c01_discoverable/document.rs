//! The output of a discovery command.

use serde_json::Value;

use crate::canary;
use crate::schema::shorten;

#[derive(Clone, Debug, PartialEq)]
pub enum DiscoveryOutput {
    Json(Value),
    /// Events instead of the requested document: their number.
    Stream(usize),
    Empty,
    /// Anything else: its first line.
    Other(String),
}

/// Parses stdout as one JSON document. The second value is whether it contains escape sequences.
pub fn read(stdout: &[u8]) -> (DiscoveryOutput, bool) {
    let has_escapes = stdout.contains(&0x1b);
    let bytes = match has_escapes {
        true => without_escapes(stdout),
        false => stdout.to_vec(),
    };
    (parse(&bytes), has_escapes)
}

fn parse(bytes: &[u8]) -> DiscoveryOutput {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return DiscoveryOutput::Empty;
    }
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        return match is_event(&value) {
            true => DiscoveryOutput::Stream(1),
            false => DiscoveryOutput::Json(value),
        };
    }
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    let event =
        |line: &&[u8]| serde_json::from_slice::<Value>(line).is_ok_and(|value| is_event(&value));
    if lines.first().is_some_and(event) {
        return DiscoveryOutput::Stream(lines.len());
    }
    let first = lines.first().copied().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    DiscoveryOutput::Other(shorten(&canary::masked(&first)))
}

/// Whether the value is a framework event. A schema has no such `type`.
fn is_event(value: &Value) -> bool {
    let kind = value.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.starts_with("aoi:"))
}

fn without_escapes(bytes: &[u8]) -> Vec<u8> {
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
pub fn invalid_fields(manifest: &Value) -> Vec<String> {
    let mut invalid = Vec::new();
    for key in ["tool", "tool_version"] {
        expect(
            manifest,
            key,
            "",
            "a non-empty string",
            is_text,
            &mut invalid,
        );
    }
    for key in ["aoi_versions", "outputs"] {
        expect(
            manifest,
            key,
            "",
            "a list of non-empty strings",
            is_texts,
            &mut invalid,
        );
    }
    for (key, what) in [
        ("schemas", "a list of objects"),
        ("commands", "a list of objects"),
    ] {
        expect(manifest, key, "", what, is_objects, &mut invalid);
    }
    for (index, schema) in list(manifest, "schemas").iter().enumerate() {
        let at = format!("schemas/{index}/");
        expect(
            schema,
            "name",
            &at,
            "a non-empty string",
            is_text,
            &mut invalid,
        );
        expect(
            schema,
            "versions",
            &at,
            "a list of non-empty strings",
            is_texts,
            &mut invalid,
        );
        expect(
            schema,
            "default",
            &at,
            "a non-empty string",
            is_text,
            &mut invalid,
        );
        if let (Some(default), Some(versions)) = (schema.get("default"), schema.get("versions"))
            && is_text(default)
            && is_texts(versions)
            && versions
                .as_array()
                .is_some_and(|all| !all.contains(default))
        {
            invalid.push(format!("`{at}default` is not in `versions`"));
        }
    }
    for (index, command) in list(manifest, "commands").iter().enumerate() {
        let name = command.get("name").and_then(Value::as_str);
        let at = match name {
            Some(name) if !name.is_empty() => format!("commands/{name}/"),
            _ => {
                invalid.push(format!("`commands/{index}` has no `name`"));
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
                &mut invalid,
            );
        }
        expect(
            command,
            "event_types",
            &at,
            "a list of non-empty strings",
            is_texts,
            &mut invalid,
        );
    }
    invalid
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
    invalid: &mut Vec<String>,
) {
    if value.get(key).is_some_and(|found| !holds(found)) {
        invalid.push(format!("`{at}{key}` is not {what}"));
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
        assert_eq!(
            of("{\"a\":1}\n"),
            (DiscoveryOutput::Json(json!({"a": 1})), false)
        );
        let has_escapes = "{\u{1b}[34m\"a\"\u{1b}[0m: 1}";
        assert_eq!(
            of(has_escapes),
            (DiscoveryOutput::Json(json!({"a": 1})), true)
        );
        let stream = "{\"type\":\"aoi:meta\"}\n{\"type\":\"x\"}\n";
        assert_eq!(of(stream), (DiscoveryOutput::Stream(2), false));
        assert_eq!(of(" \n"), (DiscoveryOutput::Empty, false));
        assert_eq!(of("hi\n{}\n").0, DiscoveryOutput::Other("hi".to_owned()));
        assert_eq!(of("{}\n{}\n").0, DiscoveryOutput::Other("{}".to_owned()));
        // A schema also has a `type`.
        assert!(matches!(
            of("{\"type\":\"object\"}").0,
            DiscoveryOutput::Json(_)
        ));
        assert_eq!(of("\u{1b}").0, DiscoveryOutput::Empty);
        assert_eq!(of("\u{1b}[").0, DiscoveryOutput::Empty);
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
        assert_eq!(invalid_fields(&good), Vec::<String>::new());
        assert_eq!(invalid_fields(&json!({})), Vec::<String>::new());
        for (pointer, invalid) in [
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
            *bad.pointer_mut(pointer).expect("there") = invalid;
            assert_eq!(
                invalid_fields(&bad).len(),
                1,
                "{pointer}: {:?}",
                invalid_fields(&bad)
            );
        }
    }
}
