//! Parses the arguments of a tool call. Type errors name the argument. Like over HTTP, null means
//! omitted, and unknown arguments are ignored.

use std::ops::RangeInclusive;

pub use agentproto_text::strict_json::type_name as kind;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use crate::error::ApiError;

#[derive(Default)]
pub struct Arguments(JsonObject);

impl Arguments {
    pub fn new(arguments: Option<JsonObject>) -> Self {
        Arguments(arguments.unwrap_or_default())
    }

    /// The arguments as received, to forward them.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub fn text(&self, name: &str) -> Result<String, ApiError> {
        let text = self.maybe_text(name)?;
        text.ok_or_else(|| {
            ApiError::bad_request(format!("`{name}` is missing"))
                .hint(format!("pass `{name}` as a string"))
                .details(json!({ "field": name }))
        })
    }

    pub fn maybe_text(&self, name: &str) -> Result<Option<String>, ApiError> {
        self.maybe(name, "a string", |value| value.as_str().map(str::to_owned))
    }

    pub fn maybe_flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.maybe(name, "true or false", Value::as_bool)
    }

    /// One of a few words.
    pub fn maybe_word<T: std::str::FromStr>(
        &self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, ApiError> {
        self.maybe(name, expected, |value| value.as_str()?.parse().ok())
    }

    /// A value of any type.
    pub fn maybe_value(&self, name: &str) -> Option<Value> {
        self.get(name).cloned()
    }

    /// An integer. Like in JSON Schema, `3.0` is one.
    pub fn maybe_count(
        &self,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ApiError> {
        let expected = format!("an integer from {} to {}", range.start(), range.end());
        self.maybe(name, &expected, |value| {
            let whole = value.as_u64().or_else(|| {
                let number = value.as_f64().filter(|n| n.fract() == 0.0)?;
                // Larger numbers are out of every range.
                (0.0..=1e15).contains(&number).then_some(number as u64)
            });
            whole.filter(|n| range.contains(n))
        })
    }

    fn maybe<T>(
        &self,
        name: &str,
        expected: &str,
        take: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let taken = take(value);
        taken.map(Some).ok_or_else(|| {
            let is = match value {
                Value::Number(number) => number.to_string(),
                other => kind(other).to_owned(),
            };
            ApiError::bad_request(format!("`{name}` must be {expected}, but is {is}"))
                .hint("see `tools/list` for the schema of each tool's arguments")
                .details(json!({ "field": name }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(value: Value) -> Arguments {
        Arguments::new(value.as_object().cloned())
    }

    #[test]
    fn type_errors_name_the_argument() {
        let wrong = arguments(json!({ "a": 7, "b": "yes", "c": 1.5, "d": 0, "e": "3" }));
        let summary = |error: ApiError| (error.status, error.message);
        assert_eq!(
            summary(wrong.text("a").expect_err("not a string")),
            (400, "`a` must be a string, but is 7".to_owned())
        );
        assert_eq!(
            summary(wrong.maybe_flag("b").expect_err("not a boolean")),
            (400, "`b` must be true or false, but is a string".to_owned())
        );
        for (name, is) in [("c", "1.5"), ("d", "0"), ("e", "a string")] {
            let error = wrong.maybe_count(name, 1..=9).expect_err("out of range");
            let expected = format!("`{name}` must be an integer from 1 to 9, but is {is}");
            assert_eq!(error.message, expected);
        }
        assert_eq!(
            wrong.text("f").expect_err("missing").message,
            "`f` is missing"
        );
    }

    #[test]
    fn valid_and_omitted_arguments_are_accepted() {
        let right = arguments(json!({ "a": "x", "b": true, "c": 3.0, "n": null, "odd": [] }));
        assert_eq!(right.text("a").expect("a string"), "x");
        assert_eq!(right.maybe_flag("b").expect("a boolean"), Some(true));
        assert_eq!(right.maybe_count("c", 1..=9).expect("whole"), Some(3));
        assert_eq!(right.maybe_text("n").expect("left out"), None);
        assert_eq!(right.maybe_count("z", 1..=9).expect("left out"), None);
    }
}
