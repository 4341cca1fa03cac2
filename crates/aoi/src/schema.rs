//! The event schema that a tool declares, in any of the forms that §10 allows. Nothing is fetched:
//! a schema must contain everything an offline caller needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Retrieve, Uri, Validator};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::canary;

/// How the document is organized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaForm {
    /// One schema for all events.
    One,
    /// One document with a definition per event type.
    Definitions,
    /// One schema per event type, in an object or a list.
    Several,
}

/// Why a document is not a usable schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaError {
    /// Not a schema at all.
    NotASchema(String),
    /// The dialect in `$schema` is unknown.
    Dialect(String),
    /// Violates the meta-schema of its dialect.
    Invalid(String),
    /// A reference within the document has no target.
    Dangling(String),
    /// A reference to another document: its URI.
    Remote(String),
}

/// The result of validating one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validity {
    Valid,
    /// The location and the reason.
    Invalid(String),
    /// The schema has no definition for the event type.
    Undefined,
}

/// A compiled event schema.
#[derive(Debug)]
pub struct EventSchema {
    pub form: SchemaForm,
    whole: Option<Validator>,
    by_type: BTreeMap<String, Validator>,
    /// All allowed event types, if the schema lists them.
    pub types: Option<BTreeSet<String>>,
}

/// Keywords that make an object a schema with assertions.
const ASSERTIONS: [&str; 22] = [
    "type",
    "properties",
    "required",
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "enum",
    "const",
    "items",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "dependentSchemas",
    "dependentRequired",
    "unevaluatedProperties",
];
/// Keywords that hold definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Keywords that may occur next to the types in a map of schemas.
const ANNOTATIONS: [&str; 7] = [
    "$schema",
    "$id",
    "id",
    "$comment",
    "title",
    "description",
    "schema_version",
];

impl EventSchema {
    pub fn read(document: &Value) -> Result<EventSchema, SchemaError> {
        match document {
            Value::Object(members) if is_type_map(members) => from_many(
                members
                    .iter()
                    .filter(|(name, _)| !ANNOTATIONS.contains(&name.as_str()))
                    .map(|(name, schema)| (Some(name.clone()), schema)),
            ),
            Value::Array(items) if !items.is_empty() => {
                from_many(items.iter().map(|schema| (None, schema)))
            }
            Value::Object(_) | Value::Bool(_) => from_one(document),
            _ => Err(SchemaError::NotASchema(
                "it is neither an object nor a boolean".into(),
            )),
        }
    }

    pub fn validate(&self, event: &Value) -> Validity {
        if let Some(whole) = &self.whole
            && let Some(why) = first_error(whole, event)
        {
            return Validity::Invalid(why);
        }
        if self.by_type.is_empty() {
            return Validity::Valid;
        }
        let kind = event.get("type").and_then(Value::as_str);
        let definition = kind.and_then(|kind| self.by_type.get(kind));
        match (definition, &self.whole) {
            (Some(definition), _) => match first_error(definition, event) {
                Some(why) => Validity::Invalid(why),
                None => Validity::Valid,
            },
            (None, _) if kind.is_none() => Validity::Invalid("`type` is missing".to_owned()),
            (None, _) => Validity::Undefined,
        }
    }

    /// Whether the schema rejects an event with one field missing or of another type. If it does
    /// not, a valid event proves nothing.
    pub fn discriminates(&self, event: &Value) -> bool {
        let Value::Object(members) = event else {
            return false;
        };
        members.keys().any(|name| {
            let mut less = members.clone();
            less.remove(name);
            let mut other = members.clone();
            let invalid = match members.get(name) {
                Some(Value::Number(_) | Value::Bool(_)) => json!("yes"),
                _ => json!(7),
            };
            other.insert(name.clone(), invalid);
            let rejects = |event| self.validate(&Value::Object(event)) != Validity::Valid;
            rejects(less) || (name != "type" && rejects(other))
        })
    }
}

fn first_error(validator: &Validator, event: &Value) -> Option<String> {
    let error = validator.iter_errors(event).next()?;
    let at = error.instance_path().as_str();
    let place = if at.is_empty() { "event" } else { at };
    let why = canary::masked(&error.to_string());
    Some(format!("{place}: {}", shorten(&why)))
}

pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Whether the keys of the object are event types: no JSON Schema keywords, and every value a
/// schema.
fn is_type_map(members: &Map<String, Value>) -> bool {
    let says =
        |name: &String| ASSERTIONS.contains(&name.as_str()) || DEFINITIONS.contains(&name.as_str());
    let mut types = members
        .iter()
        .filter(|(name, _)| !ANNOTATIONS.contains(&name.as_str()))
        .peekable();
    types.peek().is_some()
        && !members.keys().any(says)
        && members.keys().any(|name| name.starts_with("aoi:"))
        && types.all(|(_, schema)| schema.is_object() || schema.is_boolean())
}

fn from_many<'v>(
    schemas: impl Iterator<Item = (Option<String>, &'v Value)>,
) -> Result<EventSchema, SchemaError> {
    let mut by_type = BTreeMap::new();
    for (name, schema) in schemas {
        if !schema.is_object() && !schema.is_boolean() {
            return Err(SchemaError::NotASchema(
                "one of its members is not a schema".into(),
            ));
        }
        let mut kinds = names(schema);
        kinds.extend(name.filter(|_| kinds.is_empty()));
        for kind in kinds {
            by_type.insert(kind, compile(schema)?);
        }
    }
    Ok(EventSchema {
        form: SchemaForm::Several,
        whole: None,
        types: Some(by_type.keys().cloned().collect()),
        by_type,
    })
}

fn from_one(document: &Value) -> Result<EventSchema, SchemaError> {
    let whole = compile(document)?;
    if let Some(dangling) = dangling(document) {
        return Err(SchemaError::Dangling(dangling));
    }
    let mut by_type = BTreeMap::new();
    for (pointer, kind) in definitions(document) {
        by_type.insert(kind, compile(&with_root(document, &pointer))?);
    }
    let types = match by_type.is_empty() {
        true => listed_types(document),
        false => Some(by_type.keys().cloned().collect()),
    };
    Ok(EventSchema {
        form: match by_type.is_empty() {
            true => SchemaForm::One,
            false => SchemaForm::Definitions,
        },
        whole: Some(whole),
        by_type,
        types,
    })
}

/// Event types that `properties.type` of the root allows.
fn listed_types(document: &Value) -> Option<BTreeSet<String>> {
    let kinds = names(document);
    (!kinds.is_empty()).then_some(kinds)
}

/// Event types that `properties.type` names.
fn names(schema: &Value) -> BTreeSet<String> {
    let kind = schema.pointer("/properties/type");
    let one = kind.and_then(|kind| kind.get("const"));
    let many = kind.and_then(|kind| kind.get("enum"));
    let many = many.and_then(Value::as_array).into_iter().flatten();
    let all = one.into_iter().chain(many).filter_map(Value::as_str);
    all.map(str::to_owned).collect()
}

/// Definitions per event type, unless the root references them. The root applies those itself.
fn definitions(document: &Value) -> Vec<(String, String)> {
    let Value::Object(members) = document else {
        return Vec::new();
    };
    let outside = members
        .iter()
        .filter(|(name, _)| !DEFINITIONS.contains(&name.as_str()));
    let mut uses = false;
    for (name, value) in outside {
        let keyed = json!({ name.as_str(): value });
        references(&keyed, &mut |reference| {
            uses |= DEFINITIONS
                .iter()
                .any(|word| reference.starts_with(&format!("#/{word}/")));
        });
    }
    if uses {
        return Vec::new();
    }
    let mut found = Vec::new();
    for word in DEFINITIONS {
        let all = members.get(word).and_then(Value::as_object);
        for (key, schema) in all.into_iter().flatten() {
            let pointer = format!("#/{word}/{}", key.replace('~', "~0").replace('/', "~1"));
            let kinds = names(schema);
            let is_event = key.starts_with("aoi:") || !kinds.is_empty();
            let kinds = match kinds.is_empty() {
                true => BTreeSet::from([key.clone()]),
                false => kinds,
            };
            if is_event {
                found.extend(kinds.into_iter().map(|kind| (pointer.clone(), kind)));
            }
        }
    }
    found
}

/// The document, with one of its definitions as the root.
fn with_root(document: &Value, pointer: &str) -> Value {
    let mut entered = Map::new();
    for name in DEFINITIONS.iter().chain(&["$schema", "$id"]) {
        if let Some(value) = document.get(*name) {
            entered.insert((*name).to_owned(), value.clone());
        }
    }
    entered.insert("$ref".to_owned(), pointer.into());
    Value::Object(entered)
}

/// Calls `found` for every `$ref` and `$dynamicRef` outside of example values.
fn references(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(reference)) => found(reference),
                    ("const" | "enum" | "default" | "examples" | "example", _) => {}
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// A pointer within the document that has no target, even if nothing uses it. With a nested `$id`,
/// pointers are relative to it, so only used references are checked (by `compile`).
fn dangling(document: &Value) -> Option<String> {
    let mut ids = 0;
    identifiers(document, &mut |_| ids += 1);
    if ids > usize::from(document.get("$id").is_some()) {
        return None;
    }
    let mut result = None;
    references(document, &mut |reference| {
        if let Some(pointer) = reference.strip_prefix('#')
            && pointer.starts_with('/')
            && !pointer.contains('%')
            && document.pointer(pointer).is_none()
        {
            result.get_or_insert_with(|| reference.to_owned());
        }
    });
    result
}

/// Calls `found` for every `$id` of the document and its embedded schemas.
pub fn identifiers(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("$id", Value::String(id)) => found(id),
                    ("const" | "enum" | "default" | "examples" | "example", _) => {}
                    _ => identifiers(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| identifiers(item, found)),
        _ => {}
    }
}

/// Refuses to fetch, and records the requested URI.
#[derive(Clone, Default)]
struct Offline(Arc<Mutex<Option<String>>>);

impl Retrieve for Offline {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let mut requested = self.0.lock();
        requested.get_or_insert_with(|| uri.as_str().to_owned());
        Err("remote references are not fetched".into())
    }
}

fn compile(schema: &Value) -> Result<Validator, SchemaError> {
    match jsonschema::meta::validator_for(schema) {
        Ok(meta) => {
            if let Some(error) = meta.iter_errors(schema).next() {
                let at = error.instance_path().as_str().to_owned();
                let why = shorten(&error.to_string());
                return Err(SchemaError::Invalid(format!("at `{at}`: {why}")));
            }
        }
        Err(error) => return Err(SchemaError::Dialect(shorten(&error.to_string()))),
    }
    let offline = Offline::default();
    let built = jsonschema::options()
        .with_retriever(offline.clone())
        .build(schema);
    let requested = offline.0.lock();
    match (built, requested.clone()) {
        (_, Some(uri)) => Err(SchemaError::Remote(uri)),
        (Ok(validator), None) => Ok(validator),
        (Err(error), None) => {
            let why = shorten(&error.to_string());
            Err(match error.kind() {
                ValidationErrorKind::Referencing(_) => SchemaError::Dangling(why),
                _ => SchemaError::Invalid(why),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(ok: Value) -> Value {
        json!({ "type": "aoi:summary", "ok": ok })
    }

    fn definition() -> Value {
        json!({
            "type": "object",
            "required": ["type", "ok"],
            "properties": { "type": { "const": "aoi:summary" }, "ok": { "type": "boolean" } },
        })
    }

    /// AOI-10.4-01: every form of a schema that the spec allows is accepted.
    #[test]
    fn every_form_of_schema_accepts_and_rejects_events() {
        let forms = [
            (definition(), SchemaForm::One),
            (
                json!({ "$defs": { "aoi:summary": definition() } }),
                SchemaForm::Definitions,
            ),
            (
                json!({ "definitions": { "Summary": definition() } }),
                SchemaForm::Definitions,
            ),
            (
                json!({ "oneOf": [{ "$ref": "#/$defs/s" }], "$defs": { "s": definition() } }),
                SchemaForm::One,
            ),
            (json!({ "aoi:summary": definition() }), SchemaForm::Several),
            (json!([definition()]), SchemaForm::Several),
        ];
        for (document, form) in forms {
            let schema = EventSchema::read(&document).expect("a schema");
            assert_eq!(schema.form, form, "{document}");
            assert_eq!(
                schema.validate(&summary(json!(true))),
                Validity::Valid,
                "{document}"
            );
            let result = schema.validate(&summary(json!("yes")));
            assert!(
                matches!(result, Validity::Invalid(_)),
                "{document}: {result:?}"
            );
            assert!(schema.discriminates(&summary(json!(true))), "{document}");
        }
    }

    #[test]
    fn a_schema_that_allows_everything_proves_nothing() {
        let kinds =
            json!({ "type": "object", "properties": { "type": { "enum": ["aoi:summary"] } } });
        for document in [json!({}), json!(true), kinds] {
            let schema = EventSchema::read(&document).expect("a schema");
            assert!(!schema.discriminates(&summary(json!(true))), "{document}");
        }
    }

    #[test]
    fn a_type_without_definition_is_undefined() {
        let schema = EventSchema::read(&json!({ "aoi:summary": definition() })).expect("a schema");
        assert_eq!(
            schema.validate(&json!({ "type": "aoi:meta" })),
            Validity::Undefined
        );
        assert!(matches!(schema.validate(&json!({})), Validity::Invalid(_)));
    }

    /// AOI-10.1-01.
    #[test]
    fn each_kind_of_invalid_schema_is_distinguished() {
        let result = |document: Value| EventSchema::read(&document).expect_err("wrong");
        assert!(matches!(
            result(json!({ "type": "objekt" })),
            SchemaError::Invalid(_)
        ));
        assert!(matches!(result(json!("x")), SchemaError::NotASchema(_)));
        assert!(matches!(result(json!([1])), SchemaError::NotASchema(_)));
        let dangling = json!({ "not": { "$ref": "#/$defs/absent" } });
        assert!(matches!(result(dangling), SchemaError::Dangling(_)));
        let unused = json!({ "$defs": { "a": { "$ref": "#/$defs/absent" } } });
        assert!(matches!(result(unused), SchemaError::Dangling(_)));
        let anchor = json!({ "$ref": "#absent" });
        assert!(matches!(result(anchor), SchemaError::Dangling(_)));
        let remote = "https://schemas.example.com/hit.json";
        let unused = json!({ "$defs": { "hit": { "$ref": remote } } });
        assert_eq!(result(unused), SchemaError::Remote(remote.to_owned()));
        let dialect = json!({ "$schema": "https://example.com/own-dialect" });
        assert!(matches!(result(dialect), SchemaError::Dialect(_)));
    }

    /// References to embedded schemas and to known dialects need no network.
    #[test]
    fn references_within_the_document_are_followed() {
        let id = "https://schemas.example.com/events.json";
        for document in [
            json!({ "$id": id, "$ref": "#/$defs/s", "$defs": { "s": definition() } }),
            json!({ "$id": id, "$ref": id.to_owned() + "#/$defs/s", "$defs": { "s": definition() } }),
            json!({ "$ref": "part.json", "$id": id, "$defs": {
                "s": { "$id": "https://schemas.example.com/part.json", "type": "object" } } }),
            json!({ "$ref": "#s", "$defs": { "s": { "$anchor": "s", "type": "object" } } }),
            json!({ "$schema": "http://json-schema.org/draft-07/schema#",
                "$ref": "http://json-schema.org/draft-07/schema#" }),
        ] {
            assert!(EventSchema::read(&document).is_ok(), "{document}");
        }
    }

    /// A recursive schema must neither hang nor crash the engine.
    #[test]
    fn recursive_schemas_terminate() {
        for document in [
            json!({ "$ref": "#" }),
            json!({ "allOf": [{ "$ref": "#" }] }),
            json!({ "$ref": "#/$defs/a", "$defs": {
                "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
        ] {
            if let Ok(schema) = EventSchema::read(&document) {
                let _ = schema.validate(&summary(json!(true)));
            }
        }
    }
}
