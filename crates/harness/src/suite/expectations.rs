//! Parses the expectations of a case: each is a mapping with one test, and where to look.

use super::read::SuiteReader;
use super::steps::StepContext;
use super::{Assertion, Expectation, ValueRef};
use agentproto_manifest::fields::FieldReader;
use agentproto_manifest::{Node, to_json};

const TESTS: [&str; 19] = [
    "result",
    "error",
    "answer",
    "is",
    "is_not",
    "one_of",
    "type",
    "present",
    "non_empty",
    "matches",
    "contains",
    "lacks",
    "distinct",
    "same_members",
    "absolute",
    "at_least",
    "at_most",
    "length",
    "schema",
];

/// Names of all tests that an expectation can have.
pub fn test_names() -> impl Iterator<Item = &'static str> {
    TESTS.into_iter()
}

pub fn expects(
    node: &Node,
    key: &str,
    decides: &[String],
    reader: &SuiteReader<'_>,
    notes: &mut FieldReader,
) -> Vec<Expectation> {
    StepContext { decides, reader }.expects(node, key, notes)
}

impl StepContext<'_, '_> {
    pub(super) fn expects(
        &self,
        node: &Node,
        key: &str,
        notes: &mut FieldReader,
    ) -> Vec<Expectation> {
        let items = notes.items(node, key);
        items.iter().filter_map(|n| self.expect(n, notes)).collect()
    }

    fn expect(&self, node: &Node, notes: &mut FieldReader) -> Option<Expectation> {
        let known: Vec<&str> = TESTS
            .iter()
            .copied()
            .chain(["at", "say", "decides", "guess"])
            .collect();
        notes.check_keys(node, "an expectation", &known);
        let is_test = |key: &str| TESTS.contains(&key);
        let mut tests = node.entries().iter().filter(|e| is_test(&e.key));
        let (Some(entry), None) = (tests.next(), tests.next()) else {
            notes.error(
                node.span,
                "an expectation must have exactly one test, such as `is`, `type` or `error`",
            );
            return None;
        };
        let test = self::test(&entry.key, &entry.value, node, notes)?;
        let at = notes.string(node, "at").unwrap_or_default();
        let at = match at.as_str() {
            path if path.starts_with('$') => ValueRef::Named(at),
            "" => ValueRef::Here(at),
            path if path.starts_with('/') => ValueRef::Here(at),
            _ => {
                let wanted = "`at` must be a JSON Pointer (`/result/x`) or `$name/pointer`";
                notes.error(node.get("at").map_or(node.span, |n| n.span), wanted);
                return None;
            }
        };
        let decides = notes.string(node, "decides");
        if let (Some(id), Some(place)) = (&decides, node.get("decides"))
            && !self.decides.contains(id)
        {
            notes.error(
                place.span,
                format!("`{id}` is not in `decides` of this case"),
            );
        }
        Some(Expectation {
            at,
            test,
            message: notes.string(node, "say"),
            decides,
            is_guess: notes.bool_or(node, "guess", false),
            line: self.reader.line(node),
        })
    }
}

fn test(name: &str, value: &Node, node: &Node, notes: &mut FieldReader) -> Option<Assertion> {
    Some(match name {
        "result" => {
            notes.one_of(node, name, "any", &["any"]);
            Assertion::Result
        }
        "answer" => {
            notes.one_of(node, name, "any", &["any"]);
            Assertion::Answer
        }
        "error" => Assertion::Error(codes(value, notes)),
        "is" => Assertion::Is(to_json(value)),
        "is_not" => Assertion::IsNot(to_json(value)),
        "one_of" => Assertion::OneOf(value.items().iter().map(to_json).collect()),
        "type" => {
            let types = [
                "string",
                "integer",
                "number",
                "boolean",
                "object",
                "list",
                "null",
                "object or null",
            ];
            Assertion::Type(notes.one_of(node, "type", "object", &types))
        }
        "present" => Assertion::Present(notes.bool_or(node, "present", true)),
        "non_empty" => {
            expect_true(value, name, notes);
            Assertion::NonEmpty
        }
        "matches" => {
            let pattern = notes.string(node, "matches")?;
            match regress::Regex::new(&pattern) {
                Ok(regex) => Assertion::Matches(Box::new(regex), pattern),
                Err(error) => {
                    notes.error(value.span, format!("invalid ECMAScript pattern: {error}"));
                    return None;
                }
            }
        }
        "contains" => Assertion::Contains(to_json(value)),
        "lacks" => Assertion::Lacks(to_json(value)),
        "distinct" => {
            expect_true(value, name, notes);
            Assertion::Distinct
        }
        "same_members" => Assertion::SameMembers(to_json(value)),
        "absolute" => {
            expect_true(value, name, notes);
            Assertion::Absolute
        }
        "at_least" | "at_most" => {
            let number = to_json(value).as_f64();
            let Some(number) = number else {
                notes.error(value.span, format!("`{name}` must be a number"));
                return None;
            };
            match name {
                "at_least" => Assertion::AtLeast(number),
                _ => Assertion::AtMost(number),
            }
        }
        "length" => Assertion::Length(notes.number(node, "length", 0, 1 << 32)?),
        _ => {
            let schema = to_json(value);
            match jsonschema::validator_for(&schema) {
                Ok(validator) => Assertion::Schema(Box::new(schema), Box::new(validator)),
                Err(error) => {
                    notes.error(value.span, format!("invalid JSON Schema: {error}"));
                    return None;
                }
            }
        }
    })
}

/// Reports a value other than `true`, for tests without a parameter.
fn expect_true(value: &Node, name: &str, notes: &mut FieldReader) {
    if value.as_bool() != Some(true) {
        notes.error(value.span, format!("`{name}` must be true"));
    }
}

/// `any`, a code, or a list of codes.
fn codes(value: &Node, notes: &mut FieldReader) -> Vec<i64> {
    if let Some(code) = value.as_int() {
        return vec![code];
    }
    let codes: Option<Vec<i64>> = value.items().iter().map(Node::as_int).collect();
    match codes {
        Some(codes) if value.is_seq() => codes,
        _ => {
            if value.as_str() != Some("any") {
                notes.error(
                    value.span,
                    "`error` must be `any`, a code, or a list of codes",
                );
            }
            Vec::new()
        }
    }
}
