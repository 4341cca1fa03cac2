//! The JSON Schemas of a tool's input and output.

use serde_json::{Map, Value, json};

use super::template::{Reference, invalid};
use crate::error::{Code, Error};
use agentproto_text::redact::{is_known_token, is_secret_name};
use agentproto_text::strict_json::type_name;
use agentproto_text::{closest_of, truncate};

/// Maximum number of violations that are reported.
const MAX_VIOLATIONS: usize = 10;
/// Maximum number of steps of a pattern, because the schema is untrusted.
const MAX_BACKTRACKING: usize = 100_000;
/// Keywords that allow properties which are not listed under `properties`.
const OPEN_KEYWORDS: [&str; 6] = [
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "patternProperties",
    "$dynamicRef",
];

/// A compiled schema.
pub struct Schema(jsonschema::Validator);

/// A place where a value does not match its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer of the place.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
}

impl Schema {
    /// Compiles a schema. Remote references are not fetched, so they are an error.
    pub fn compile(schema: &Value) -> Result<Schema, String> {
        let patterns = jsonschema::PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKING);
        let built = jsonschema::options()
            .with_pattern_options(patterns)
            .build(schema);
        match built {
            Ok(validator) => Ok(Schema(validator)),
            Err(error) => Err(truncate(&error.to_string(), 300)),
        }
    }

    /// The first violations of a value.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        let errors = self.0.iter_errors(value).take(MAX_VIOLATIONS);
        errors
            .map(|error| {
                let pointer = error.instance_path().as_str().to_owned();
                let last = pointer.rsplit('/').next().unwrap_or_default();
                let text = error.instance().as_str().unwrap_or_default();
                let is_secret = is_secret_name(last) || is_known_token(text);
                let message = match is_secret || error.to_string().len() > 200 {
                    true => truncate(&error.masked().to_string(), 200),
                    false => error.to_string(),
                };
                Violation { pointer, message }
            })
            .collect()
    }
}

/// Type, allowed values and description of one input, for options and help.
#[derive(Clone, Debug)]
pub struct InputInfo<'s> {
    /// Name of the property.
    pub name: &'s str,
    /// Schema of the property.
    pub schema: &'s Value,
    /// Whether the property is required.
    pub is_required: bool,
}

impl InputInfo<'_> {
    /// Whether the schema names this type.
    pub fn has_type(&self, name: &str) -> bool {
        has_type(self.schema, name)
    }

    /// The schema of the items, for a list.
    pub fn items(&self) -> Option<&Value> {
        self.schema.get("items")
    }

    /// The description, or an empty text.
    pub fn description(&self) -> &str {
        self.schema["description"].as_str().unwrap_or_default()
    }
}

/// Whether a schema names a type.
pub fn has_type(schema: &Value, name: &str) -> bool {
    match &schema["type"] {
        Value::String(only) => only == name,
        Value::Array(list) => list.iter().any(|one| one == name),
        _ => false,
    }
}

/// The inputs that a schema lists, in its order.
pub fn inputs(schema: &Value) -> Vec<InputInfo<'_>> {
    let required = |name: &str| {
        let list = schema["required"].as_array();
        list.is_some_and(|list| list.iter().any(|one| one == name))
    };
    let listed = schema["properties"].as_object();
    let listed = listed.into_iter().flatten();
    listed
        .map(|(name, schema)| InputInfo {
            name,
            schema,
            is_required: required(name),
        })
        .collect()
}

/// Whether only the listed properties are allowed. A schema that says nothing about others allows
/// only the listed ones, because nothing would use the others.
pub fn is_closed(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else {
        return false;
    };
    let is_open = |key: &str| keywords.contains_key(key);
    let additional = keywords.get("additionalProperties");
    !OPEN_KEYWORDS.into_iter().any(is_open)
        && additional.is_none_or(|allowed| *allowed == Value::Bool(false))
}

/// The error for an input that the tool does not have.
pub fn unknown_input(schema: &Value, name: &str) -> Error {
    let known = inputs(schema);
    let names = known.iter().map(|input| input.name);
    let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    let what = format!("the tool has no input `{}`", truncate(name, 60));
    let error = Error::new(Code::InputInvalid, what).details(json!({ "pointer": pointer }));
    match closest_of(name, names.clone()) {
        Some(meant) => error.hint(format!("did you mean `{meant}`?")),
        None if known.is_empty() => error.hint("this tool has no inputs"),
        None => {
            let names: Vec<&str> = names.take(20).collect();
            error.hint(format!("its inputs are {}", names.join(", ")))
        }
    }
}

/// Checks an input and adds the defaults of the schema.
pub fn check_input(schema: &Value, input: Value) -> Result<Value, Error> {
    let Value::Object(mut fields) = input else {
        let what = format!("the input must be an object, but is {}", type_name(&input));
        return Err(invalid("", &what));
    };
    if is_closed(schema) {
        let known = inputs(schema);
        let unknown = fields
            .keys()
            .find(|name| !known.iter().any(|input| input.name == name.as_str()));
        if let Some(name) = unknown {
            return Err(unknown_input(schema, name));
        }
    }
    add_defaults(schema, &mut fields);
    let input = Value::Object(fields);
    let compiled = Schema::compile(schema).map_err(|why| {
        let what = format!("the schema of the tool's `inputs` is invalid: {why}");
        Error::new(Code::ManifestInvalid, what).hint("fix `inputs` in the TOOL.md")
    })?;
    let violations = compiled.violations(&input);
    let Some(first) = violations.first() else {
        return Ok(input);
    };
    let what = match first.pointer.as_str() {
        "" if let Some(name) = missing(schema, &input) => format!("the input `{name}` is missing"),
        "" => format!("invalid input: {}", first.message),
        pointer => format!("input `{pointer}`: {}", first.message),
    };
    let all: Vec<Value> = violations.iter().map(Violation::json).collect();
    let details = json!({ "pointer": first.pointer, "violations": all });
    Err(Error::new(Code::InputInvalid, what).details(details))
}

/// A required input that is missing.
fn missing<'s>(schema: &'s Value, input: &Value) -> Option<&'s str> {
    let required = schema.get("required")?.as_array()?;
    let mut names = required.iter().filter_map(Value::as_str);
    names.find(|name| input.get(*name).is_none())
}

impl Violation {
    fn json(&self) -> Value {
        json!({ "pointer": self.pointer, "message": self.message })
    }
}

fn add_defaults(schema: &Value, fields: &mut Map<String, Value>) {
    for input in inputs(schema) {
        if let Some(default) = input.schema.get("default").filter(|v| !v.is_null())
            && !fields.contains_key(input.name)
        {
            fields.insert(input.name.to_owned(), default.clone());
        }
    }
}

/// Whether the schema itself lists a value (`enum`, `const`, `default`), so that the author of the
/// tool chose it.
pub fn is_listed(schema: &Value, reference: &Reference, text: &str) -> bool {
    let property = &schema["properties"][reference.name()];
    let listed = |schema: &Value| {
        let is = |value: &Value| super::template::argument_text(value) == text;
        schema["enum"]
            .as_array()
            .is_some_and(|list| list.iter().any(is))
            || schema.get("const").is_some_and(is)
            || schema.get("default").is_some_and(is)
    };
    listed(property) || listed(&property["items"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["title"],
            "properties": {
                "title": { "type": "string", "maxLength": 10 },
                "limit": { "type": "integer", "minimum": 1, "default": 30 },
                "token": { "type": "integer" },
            },
        })
    }

    #[test]
    fn valid_input_gets_the_defaults() {
        let checked = check_input(&schema(), json!({ "title": "a" })).expect("valid");
        assert_eq!(checked, json!({ "title": "a", "limit": 30 }));
        let open = json!({ "type": "object", "additionalProperties": true });
        assert!(check_input(&open, json!({ "x": 1 })).is_ok());
        assert!(check_input(&json!({}), json!({})).is_ok());
    }

    #[test]
    fn invalid_input_is_reported_with_its_pointer() {
        for (input, pointer, text) in [
            (json!([]), "", "must be an object"),
            (json!({}), "", "title"),
            (json!({ "title": 7 }), "/title", "string"),
            (json!({ "title": "a", "limit": 0 }), "/limit", "minimum"),
            (
                json!({ "title": "a", "limt": 1 }),
                "/limt",
                "has no input `limt`",
            ),
        ] {
            let error = check_input(&schema(), input.clone()).expect_err("invalid");
            assert_eq!(error.code, Code::InputInvalid);
            assert_eq!(error.details["pointer"], pointer, "{input}");
            assert!(error.message.contains(text), "{input}: {}", error.message);
        }
        let error = check_input(&schema(), json!({ "title": "a", "limt": 1 }));
        let hint = error.expect_err("unknown").hint;
        assert_eq!(hint.as_deref(), Some("did you mean `limit`?"));
    }

    #[test]
    fn a_secret_value_is_not_quoted() {
        let input = json!({ "title": "a", "token": "hunter22" });
        let error = check_input(&schema(), input).expect_err("invalid");
        assert!(!error.message.contains("hunter22"), "{}", error.message);
        assert!(!error.details.to_string().contains("hunter22"));
    }

    #[test]
    fn an_unusable_schema_is_an_error_of_the_manifest() {
        for schema in [
            json!({ "type": 7 }),
            json!({ "$ref": "https://far.example/schema.json" }),
            json!({ "$ref": "#/nowhere" }),
        ] {
            let error = check_input(&schema, json!({})).expect_err("unusable");
            assert_eq!(error.code, Code::ManifestInvalid, "{schema}");
        }
    }

    #[test]
    fn an_expensive_pattern_ends() {
        let schema = json!({
            "type": "object",
            "properties": { "x": { "type": "string", "pattern": "^(?=(a+)+$)(a|a)*b$" } },
        });
        let text = "a".repeat(40);
        assert!(check_input(&schema, json!({ "x": text })).is_err());
    }
}
