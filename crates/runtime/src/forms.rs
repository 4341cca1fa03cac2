//! Answers with content: the fields of the form that an agent's question asks for, and the check
//! of an answer against it.

use jsonschema::{Retrieve, Uri};
use serde_json::{Map, Value};

use crate::error::{Code, Error};

/// Maximum size of a form's schema, in bytes of JSON.
const MAX_SCHEMA: usize = 64 << 10;
/// Maximum number of characters of a value that an error message quotes.
const MAX_QUOTE: usize = 200;

/// Returns the schema if an answer can be checked against it: it is a small object without
/// references. References could be remote or endless, and forms do not need them.
pub(crate) fn usable(schema: &Value) -> Option<&Value> {
    let fits = schema.is_object() && schema.to_string().len() <= MAX_SCHEMA;
    (fits && !has_reference(schema)).then_some(schema)
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            let reference =
                |key: &String| matches!(&**key, "$ref" | "$dynamicRef" | "$recursiveRef");
            members.keys().any(reference) || members.values().any(has_reference)
        }
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}

/// Never loads anything.
struct Offline;

impl Retrieve for Offline {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("remote schemas are not loaded".into())
    }
}

/// Checks the content of an answer against the schema of the question.
pub fn check(schema: &Value, content: &Value) -> Result<(), Error> {
    let invalid = |pointer: &str, what: String| {
        let mut what: String = what.chars().take(MAX_QUOTE).collect();
        if !pointer.is_empty() {
            what = format!("`{pointer}`: {what}");
        }
        Error::new(
            Code::AnswerInvalid,
            format!("the answer does not match the question's schema: {what}"),
        )
        .hint("answer again; the question is still open")
        .details(serde_json::json!({ "pointer": pointer }))
    };
    let Some(schema) = usable(schema) else {
        return Err(invalid(
            "",
            "the schema is too large or has references".to_owned(),
        ));
    };
    let validator = jsonschema::options()
        .with_retriever(Offline)
        .should_validate_formats(true)
        .build(schema);
    let validator = match validator {
        Ok(validator) => validator,
        Err(error) => return Err(invalid("", format!("the schema is invalid: {error}"))),
    };
    match validator.iter_errors(content).next() {
        None => Ok(()),
        Some(error) => Err(invalid(error.instance_path().as_str(), error.to_string())),
    }
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct FormField {
    /// Name of the property, or `None` if the answer is the value itself.
    pub name: Option<String>,
    /// The text to show.
    pub label: String,
    /// An explanation of the field.
    pub description: Option<String>,
    /// Whether the form is incomplete without the field.
    pub required: bool,
    /// What the field contains.
    pub kind: FieldKind,
    /// The value of a field that is left empty.
    pub default: Option<Value>,
}

/// What a field contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Any text.
    Text,
    /// A number.
    Number,
    /// An integer.
    Integer,
    /// True or false.
    Boolean,
    /// One of these values, with their labels.
    One(Vec<(String, String)>),
    /// Any number of these values, with their labels.
    Many(Vec<(String, String)>),
    /// A value of another type, written as JSON.
    Json,
}

/// The fields that a schema asks for. A schema of another type than `object` has one field without
/// a name.
pub fn fields(schema: &Value) -> Vec<FormField> {
    let is_object = schema.get("properties").is_some()
        || schema.get("type").is_none_or(|kind| kind == "object");
    if !is_object {
        return vec![field(None, schema, true)];
    }
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|list| list.iter().any(|one| one == name));
    let properties = properties.unwrap_or(&none).iter();
    properties
        .map(|(name, property)| field(Some(name), property, is_required(name)))
        .collect()
}

fn field(name: Option<&String>, property: &Value, required: bool) -> FormField {
    let text = |key: &str| property.get(key).and_then(Value::as_str).map(str::to_owned);
    let kind = match property.get("type").and_then(Value::as_str) {
        _ if words(property).is_some() => FieldKind::One(words(property).unwrap_or_default()),
        Some("string") | None => FieldKind::Text,
        Some("number") => FieldKind::Number,
        Some("integer") => FieldKind::Integer,
        Some("boolean") => FieldKind::Boolean,
        Some("array") => match property.get("items").and_then(words) {
            Some(words) => FieldKind::Many(words),
            None => FieldKind::Json,
        },
        Some(_) => FieldKind::Json,
    };
    FormField {
        label: text("title")
            .or_else(|| name.cloned())
            .unwrap_or_else(|| "Answer".to_owned()),
        name: name.cloned(),
        description: text("description"),
        required,
        kind,
        default: property.get("default").cloned(),
    }
}

/// The words that a value may be, with their titles: `enum` with `enumNames`, or `oneOf` or `anyOf`
/// with `const` and `title`.
pub(crate) fn words(property: &Value) -> Option<Vec<(String, String)>> {
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let names = property.get("enumNames").and_then(Value::as_array);
        let name = |at: usize| names.and_then(|names| names.get(at)?.as_str());
        let values = values.iter().enumerate();
        return values
            .map(|(at, value)| {
                let value = value.as_str()?;
                Some((value.to_owned(), name(at).unwrap_or(value).to_owned()))
            })
            .collect();
    }
    let titled = property.get("oneOf").or_else(|| property.get("anyOf"));
    let titled = titled.and_then(Value::as_array)?;
    titled
        .iter()
        .map(|option| {
            let value = option.get("const")?.as_str()?;
            let title = option.get("title").and_then(Value::as_str);
            Some((value.to_owned(), title.unwrap_or(value).to_owned()))
        })
        .collect()
}

impl FormField {
    /// Reads a field from a line of text. An empty line is the default, or leaves the field out. A
    /// choice may be given by its number.
    pub fn parse(&self, line: &str) -> Result<Option<Value>, String> {
        let text = line.trim();
        if text.is_empty() {
            return match (&self.default, self.required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => Err("a value is required".to_owned()),
            };
        }
        let word = |words: &[(String, String)], text: &str| {
            let number = text.parse::<usize>().ok();
            let by_number = number.and_then(|n| words.get(n.checked_sub(1)?));
            let is_named = |(value, label): &&(String, String)| {
                value == text || label.eq_ignore_ascii_case(text)
            };
            let found = words.iter().find(is_named).or(by_number);
            found
                .map(|(value, _)| Value::from(value.as_str()))
                .ok_or_else(|| format!("enter a number from 1 to {}", words.len()))
        };
        Ok(Some(match &self.kind {
            FieldKind::Text => line.trim_end_matches(['\n', '\r']).into(),
            FieldKind::Integer => match text.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => return Err("enter an integer".to_owned()),
            },
            FieldKind::Number => match text.parse::<f64>().ok().filter(|n| n.is_finite()) {
                Some(number) => number.into(),
                None => return Err("enter a number".to_owned()),
            },
            FieldKind::Boolean => match text.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => true.into(),
                "n" | "no" | "false" => false.into(),
                _ => return Err("enter yes or no".to_owned()),
            },
            FieldKind::One(words) => word(words, text)?,
            FieldKind::Many(words) => {
                let parts = text
                    .split(',')
                    .map(str::trim)
                    .filter(|part| !part.is_empty());
                let values: Result<Vec<Value>, String> =
                    parts.map(|part| word(words, part)).collect();
                values?.into()
            }
            FieldKind::Json => match serde_json::from_str(text) {
                Ok(value) => value,
                Err(_) => return Err("enter a JSON value".to_owned()),
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "title": "Your name", "minLength": 2 },
                "age": { "type": "integer", "minimum": 0 },
                "mail": { "type": "string", "format": "email" },
                "color": { "type": "string", "oneOf": [
                    { "const": "r", "title": "Red" }, { "const": "g", "title": "Green" } ] },
                "tags": { "type": "array", "items": { "type": "string", "enum": ["a", "b"] } },
                "sure": { "type": "boolean", "default": true },
            },
            "required": ["name"],
        })
    }

    #[test]
    fn content_is_checked_against_the_schema() {
        for good in [
            json!({ "name": "Ann" }),
            json!({ "name": "Ann", "age": 7, "mail": "a@b.cd", "color": "g", "tags": ["a"], "sure": false }),
        ] {
            check(&schema(), &good).unwrap_or_else(|e| panic!("{good}: {e}"));
        }
        for (bad, pointer) in [
            (json!({}), ""),
            (json!("Ann"), ""),
            (json!({ "name": "A" }), "/name"),
            (json!({ "name": "Ann", "age": "7" }), "/age"),
            (json!({ "name": "Ann", "age": -1 }), "/age"),
            (json!({ "name": "Ann", "mail": "no-address" }), "/mail"),
            (json!({ "name": "Ann", "color": "blue" }), "/color"),
            (json!({ "name": "Ann", "tags": ["c"] }), "/tags/0"),
        ] {
            let error = check(&schema(), &bad).expect_err("invalid");
            assert_eq!(error.code, Code::AnswerInvalid);
            assert_eq!(error.details["pointer"], pointer, "{bad}: {error}");
        }
    }

    #[test]
    fn schemas_with_references_and_huge_schemas_are_not_used() {
        for schema in [
            json!({ "$ref": "#" }),
            json!({ "properties": { "a": { "$ref": "http://x.test/s" } } }),
            json!({ "title": "x".repeat(MAX_SCHEMA) }),
            json!(true),
        ] {
            assert!(usable(&schema).is_none());
            assert!(check(&schema, &json!({})).is_err());
        }
    }

    #[test]
    fn lines_are_read_as_the_fields_type() {
        let fields = fields(&schema());
        let parse = |name: &str, line: &str| {
            let field = fields.iter().find(|f| f.name.as_deref() == Some(name));
            field.expect("a field").parse(line)
        };
        for (name, line, expected) in [
            ("name", "  Ann Lee \n", Some(json!("  Ann Lee "))),
            ("age", " 7\n", Some(json!(7))),
            ("age", "\n", None),
            ("sure", "\n", Some(json!(true))),
            ("sure", "No\n", Some(json!(false))),
            ("color", "2\n", Some(json!("g"))),
            ("color", "red\n", Some(json!("r"))),
            ("tags", "1, b\n", Some(json!(["a", "b"]))),
        ] {
            assert_eq!(parse(name, line), Ok(expected), "{name} {line:?}");
        }
        for (name, line) in [
            ("name", ""),
            ("age", "x"),
            ("sure", "maybe"),
            ("color", "3"),
            ("tags", "1,9"),
        ] {
            assert!(parse(name, line).is_err(), "{name} {line:?}");
        }
        let free = super::fields(&json!({ "type": "string" }));
        assert_eq!((free.len(), free[0].name.as_deref()), (1, None));
    }
}
