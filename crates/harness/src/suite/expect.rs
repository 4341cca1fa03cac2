//! Expectations: what a case requires of a value, and whether the value meets it.

use std::path::Path;

use serde_json::Value;

use super::Template;
use super::template::Bindings;
use agentproto_wire::envelope::type_name;

/// A condition on a value of a message or a binding.
#[derive(Debug)]
pub struct Expectation {
    /// The value that is checked.
    pub at: ValueRef,
    /// What must be true of the value.
    pub test: Assertion,
    /// Message for a violation. Without one, the message is derived from the test.
    pub message: Option<String>,
    /// The only requirement of the case that this decides.
    pub decides: Option<String>,
    /// Whether this is a heuristic: a violation is at most a warning.
    pub is_guess: bool,
    /// Line of the expectation in its file.
    pub line: u32,
}

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueRef {
    /// A JSON Pointer into the current message.
    Here(String),
    /// `$name/pointer` into a binding.
    Named(String),
}

/// What must be true of a value.
#[derive(Debug)]
pub enum Assertion {
    /// A response with a result.
    Result,
    /// A response with an error. If codes are given, with one of these codes.
    Error(Vec<i64>),
    /// Any response.
    Answer,
    /// A value equal to this one.
    Is(Template),
    /// A value different from this one.
    IsNot(Template),
    /// A value equal to one of these.
    OneOf(Vec<Template>),
    /// A value of this JSON type.
    Type(String),
    /// Whether the value must be present or absent.
    Present(bool),
    /// A string, list or object that is not empty.
    NonEmpty,
    /// A string that matches this regular expression.
    Matches(Box<regress::Regex>, String),
    /// A list that contains the value, or a string that contains the text.
    Contains(Template),
    /// The opposite of `Contains`.
    Lacks(Template),
    /// A list without duplicates.
    Distinct,
    /// A list with the same members as another, in any order.
    SameMembers(Template),
    /// An absolute path.
    Absolute,
    /// A number with this minimum.
    AtLeast(f64),
    /// A number with this maximum.
    AtMost(f64),
    /// A list with this number of members.
    Length(u64),
    /// A JSON Schema.
    Schema(Box<Value>, Box<jsonschema::Validator>),
}

/// A violated expectation: what is wrong, and in which lines.
pub struct ExpectationFailure {
    /// What is wrong.
    pub message: String,
    /// Transcript lines of the value.
    pub lines: Vec<u64>,
    /// JSON Pointer to the value within the message.
    pub at: Option<String>,
}

impl Expectation {
    /// Checks the expectation. `here` is the current message with its transcript lines.
    pub fn check(
        &self,
        here: Option<(&Value, &[u64])>,
        bindings: &Bindings,
    ) -> Result<(), ExpectationFailure> {
        let found = match &self.at {
            ValueRef::Here(pointer) => here.and_then(|(value, _)| value.pointer(pointer)),
            ValueRef::Named(path) => bindings.resolve(path).map(|(value, _)| value),
        };
        let Err(message) = self.test.holds(found, bindings) else {
            return Ok(());
        };
        let place = match &self.at {
            ValueRef::Here(pointer) if pointer.is_empty() => String::new(),
            ValueRef::Here(pointer) => format!("{pointer}: "),
            // The name of a binding means nothing to a reader of the report: keep only the pointer
            // into it.
            ValueRef::Named(path) => match path.split_once('/') {
                Some((_, pointer)) => format!("/{pointer}: "),
                None => String::new(),
            },
        };
        let message = match &self.message {
            Some(template) => {
                let text = bindings.fill_message(template);
                match &self.at {
                    // The text already contains the value that was found.
                    ValueRef::Named(path)
                        if template.contains(&format!("${{{}}}", path.trim_start_matches('$'))) =>
                    {
                        text
                    }
                    _ => format!("{text} ({place}{message})"),
                }
            }
            None => format!("{place}{message}"),
        };
        let at = match &self.at {
            ValueRef::Here(pointer) => Some(pointer.clone()),
            ValueRef::Named(path) => path.find('/').map(|from| path.split_at(from).1.to_owned()),
        };
        Err(ExpectationFailure {
            message,
            lines: self.lines(here, bindings),
            at,
        })
    }

    /// The transcript lines of the value that is checked, or of the message in which it is missing.
    pub fn lines(&self, here: Option<(&Value, &[u64])>, bindings: &Bindings) -> Vec<u64> {
        match &self.at {
            ValueRef::Here(_) => here.map_or_else(Vec::new, |(_, lines)| lines.to_vec()),
            ValueRef::Named(path) => {
                let name = path.trim_start_matches('$').split('/').next();
                let bound = name.and_then(|name| bindings.get(name));
                bound.map(|b| b.lines.clone()).unwrap_or_default()
            }
        }
    }
}

impl Assertion {
    fn holds(&self, found: Option<&Value>, bindings: &Bindings) -> Result<(), String> {
        let fill = |template: &Template| bindings.fill(template);
        let ok = |holds: bool, wanted: &dyn Fn() -> String| match holds {
            true => Ok(()),
            false => Err(format!("expected {}, found {}", wanted(), show(found))),
        };
        match self {
            Assertion::Result => ok(
                // TR-06 reports a response that has both.
                found.is_some_and(|m| {
                    m.get("result").is_some_and(|result| !result.is_null())
                        || (m.get("result").is_some() && m.get("error").is_none_or(Value::is_null))
                }),
                &|| "a result".to_owned(),
            )
            .map_err(|mismatch| match found.and_then(|m| m.get("error")) {
                Some(error) => format!(
                    "expected a result, found the error {}",
                    describe_error(error)
                ),
                None => mismatch,
            }),
            Assertion::Answer => ok(found.is_some(), &|| "a response".to_owned()),
            Assertion::Error(codes) => {
                let error = found.and_then(|m| m.get("error"));
                let code = error.and_then(|e| e.get("code")).and_then(Value::as_i64);
                let fits = match codes.as_slice() {
                    [] => error.is_some_and(|e| !e.is_null()),
                    codes => code.is_some_and(|code| codes.contains(&code)),
                };
                ok(fits, &|| match codes.as_slice() {
                    [] => "an error".to_owned(),
                    codes => {
                        let codes: Vec<String> = codes.iter().map(i64::to_string).collect();
                        format!("an error with code {}", codes.join(" or "))
                    }
                })
            }
            Assertion::Is(template) => {
                let wanted = fill(template)?;
                ok(found.is_some_and(|f| same(f, &wanted)), &|| {
                    show(Some(&wanted))
                })
            }
            Assertion::IsNot(template) => {
                let unwanted = fill(template)?;
                ok(!found.is_some_and(|f| same(f, &unwanted)), &|| {
                    format!("anything but {}", show(Some(&unwanted)))
                })
            }
            Assertion::OneOf(templates) => {
                let wanted: Result<Vec<Value>, String> = templates.iter().map(fill).collect();
                let wanted = wanted?;
                ok(
                    found.is_some_and(|f| wanted.iter().any(|w| same(f, w))),
                    &|| {
                        let words: Vec<String> = wanted.iter().map(|w| show(Some(w))).collect();
                        words.join(" or ")
                    },
                )
            }
            Assertion::Type(name) => ok(found.is_some_and(|f| is_of(f, name)), &|| {
                format!("a value of type {name}")
            }),
            Assertion::Present(wanted) => ok(
                found.is_some_and(|f| !f.is_null()) == *wanted,
                &|| match wanted {
                    true => "a value".to_owned(),
                    false => "no value".to_owned(),
                },
            ),
            Assertion::NonEmpty => {
                let filled = match found {
                    Some(Value::String(text)) => !text.is_empty(),
                    Some(Value::Array(items)) => !items.is_empty(),
                    Some(Value::Object(members)) => !members.is_empty(),
                    _ => false,
                };
                ok(filled, &|| "a non-empty value".to_owned())
            }
            Assertion::Matches(regex, pattern) => {
                let text = found.and_then(Value::as_str);
                let fits = text.is_some_and(|t| t.len() < 65536 && regex.find(t).is_some());
                ok(fits, &|| format!("a string that matches {pattern}"))
            }
            Assertion::Contains(template) => {
                let wanted = fill(template)?;
                ok(contains(found, &wanted), &|| {
                    format!("a value that contains {}", show(Some(&wanted)))
                })
            }
            Assertion::Lacks(template) => {
                let unwanted = fill(template)?;
                ok(!contains(found, &unwanted), &|| {
                    format!("a value that does not contain {}", show(Some(&unwanted)))
                })
            }
            Assertion::Distinct => {
                let items = found.and_then(Value::as_array);
                let differ = items.is_some_and(|items| {
                    let mut seen: Vec<String> = items.iter().map(Value::to_string).collect();
                    seen.sort();
                    seen.windows(2).all(|pair| pair.first() != pair.last())
                });
                ok(differ, &|| "a list without duplicates".to_owned())
            }
            Assertion::SameMembers(template) => {
                let wanted = fill(template)?;
                let sorted = |list: Option<&Value>| {
                    let items = list?.as_array()?;
                    let mut texts: Vec<String> = items.iter().map(Value::to_string).collect();
                    texts.sort();
                    Some(texts)
                };
                let (ours, theirs) = (sorted(Some(&wanted)), sorted(found));
                ok(ours.is_some() && ours == theirs, &|| {
                    format!("the same members as {}", show(Some(&wanted)))
                })
            }
            Assertion::Absolute => ok(
                found
                    .and_then(Value::as_str)
                    .is_some_and(|path| Path::new(path).is_absolute()),
                &|| "an absolute path".to_owned(),
            ),
            Assertion::AtLeast(least) => ok(
                found.and_then(Value::as_f64).is_some_and(|n| n >= *least),
                &|| format!("at least {least}"),
            ),
            Assertion::AtMost(most) => ok(
                found.and_then(Value::as_f64).is_some_and(|n| n <= *most),
                &|| format!("at most {most}"),
            ),
            Assertion::Length(length) => ok(
                found
                    .and_then(Value::as_array)
                    .is_some_and(|items| items.len() as u64 == *length),
                &|| format!("a list of length {length}"),
            ),
            Assertion::Schema(_, validator) => {
                let Some(found) = found else {
                    return Err("expected a value, found nothing".to_owned());
                };
                match validator.iter_errors(found).next() {
                    None => Ok(()),
                    Some(error) => {
                        let place = error.instance_path().to_string();
                        // The error quotes the whole value, which may be long.
                        let why = without_middle(&error.to_string());
                        Err(match place.is_empty() {
                            true => why,
                            false => format!("at {place}: {why}"),
                        })
                    }
                }
            }
        }
    }
}

/// Compares values. Numbers are equal if their values are: `1` and `1.0` are the same in JSON.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        _ => a == b,
    }
}

fn contains(found: Option<&Value>, part: &Value) -> bool {
    match (found, part) {
        (Some(Value::String(text)), Value::String(part)) => text.contains(part.as_str()),
        (Some(Value::Array(items)), part) => items.iter().any(|item| same(item, part)),
        (Some(Value::Object(members)), Value::String(key)) => members.contains_key(key),
        _ => false,
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "list" => value.is_array(),
        "null" => value.is_null(),
        "object or null" => value.is_object() || value.is_null(),
        _ => false,
    }
}

/// Shortens a schema error. It starts with the value, which may be long, and ends with the reason.
fn without_middle(text: &str) -> String {
    const HEAD: usize = 120;
    const TAIL: usize = 160;
    let length = text.chars().count();
    if length <= HEAD + TAIL {
        return text.to_owned();
    }
    let head: String = text.chars().take(HEAD).collect();
    let tail: String = text.chars().skip(length - TAIL).collect();
    format!("{head} … {tail}")
}

/// Message and code of a JSON-RPC error. `data` is left out, because it often differs between runs.
pub fn describe_error(error: &Value) -> String {
    let message = error.get("message").and_then(Value::as_str);
    match (message, error.get("code")) {
        (Some(message), Some(code)) => {
            let short: String = message.chars().take(200).collect();
            format!("\"{short}\" ({code})")
        }
        _ => show(Some(error)),
    }
}

/// A value for a message: shortened, and then with its type.
fn show(value: Option<&Value>) -> String {
    const MAX_CHARS: usize = 120;
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => format!(
            "{} {}…",
            type_name(value),
            text.get(..at).unwrap_or_default()
        ),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(test: Assertion, value: Value) -> bool {
        test.holds(Some(&value), &Bindings::default()).is_ok()
    }

    #[test]
    fn the_reason_is_kept_when_a_long_value_is_shortened() {
        let schema = json!({"minItems": 2});
        let validator = jsonschema::validator_for(&schema).unwrap();
        let test = Assertion::Schema(Box::new(schema), Box::new(validator));
        let long = json!(["x".repeat(5000)]);
        let why = test.holds(Some(&long), &Bindings::default()).unwrap_err();
        assert!(why.ends_with("has less than 2 items"), "{why}");
        assert!(why.starts_with("[\"xxx") && why.len() < 400, "{why}");
    }

    #[test]
    fn a_message_shows_the_value_once() {
        let mut bindings = Bindings::default();
        bindings.bind("exit", json!({"survivors": 1}), Vec::new());
        let message = |text: &str| {
            let expectation = Expectation {
                at: ValueRef::Named("$exit/survivors".to_owned()),
                test: Assertion::Is(json!(0)),
                message: Some(text.to_owned()),
                decides: None,
                is_guess: false,
                line: 1,
            };
            expectation.check(None, &bindings).unwrap_err().message
        };
        assert_eq!(
            message("left (count: ${exit/survivors})"),
            "left (count: 1)"
        );
        assert_eq!(message("left"), "left (/survivors: expected 0, found 1)");
    }

    #[test]
    fn each_test_accepts_and_rejects_the_right_values() {
        assert!(holds(Assertion::Result, json!({"result": null})));
        assert!(!holds(Assertion::Result, json!({"error": {"code": 1}})));
        assert!(holds(
            Assertion::Error(vec![-32601]),
            json!({"error": {"code": -32601}})
        ));
        assert!(!holds(
            Assertion::Error(vec![-32601]),
            json!({"error": {"code": -32602}})
        ));
        assert!(!holds(
            Assertion::Error(vec![]),
            json!({"error": null, "result": 1})
        ));
        assert!(holds(Assertion::Is(json!(1)), json!(1.0)));
        assert!(!holds(Assertion::Is(json!(1)), json!("1")));
        assert!(holds(Assertion::Type("integer".into()), json!(1)));
        assert!(!holds(Assertion::Type("integer".into()), json!(1.5)));
        assert!(holds(Assertion::Distinct, json!(["a", "b"])));
        assert!(!holds(Assertion::Distinct, json!(["a", "b", "a"])));
        assert!(!holds(Assertion::Distinct, json!("a")));
        assert!(holds(Assertion::SameMembers(json!([1, 2])), json!([2, 1])));
        assert!(!holds(Assertion::SameMembers(json!([1, 2])), json!([1])));
        assert!(holds(Assertion::Contains(json!("b")), json!("abc")));
        assert!(!holds(Assertion::Lacks(json!("b")), json!(["b"])));
        assert!(holds(Assertion::Absolute, json!("/a")));
        assert!(!holds(Assertion::Absolute, json!("a")));
        assert!(!holds(Assertion::NonEmpty, json!("")));
    }
}
