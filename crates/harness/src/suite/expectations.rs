//! Parses the expectations of a case: each is a mapping with one test, and where to look.

use super::read::Reader;
use super::steps::At;
use super::{Expect, Place, Test};
use agentproto_manifest::fields::Notes;
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
    reader: &Reader<'_>,
    notes: &mut Notes,
) -> Vec<Expect> {
    At { decides, reader }.expects(node, key, notes)
}

impl At<'_, '_> {
    pub(super) fn expects(&self, node: &Node, key: &str, notes: &mut Notes) -> Vec<Expect> {
        let items = notes.items(node, key);
        items.iter().filter_map(|n| self.expect(n, notes)).collect()
    }

    fn expect(&self, node: &Node, notes: &mut Notes) -> Option<Expect> {
        let known: Vec<&str> = TESTS
            .iter()
            .copied()
            .chain(["at", "say", "decides", "guess"])
            .collect();
        notes.keys(node, "an expectation", &known);
        let is_test = |key: &str| TESTS.contains(&key);
        let mut tests = node.entries().iter().filter(|e| is_test(&e.key));
        let (Some(entry), None) = (tests.next(), tests.next()) else {
            notes.wrong(
                node.span,
                "an expectation must have exactly one test, such as `is`, `type` or `error`",
            );
            return None;
        };
        let test = self::test(&entry.key, &entry.value, node, notes)?;
        let at = notes.string(node, "at").unwrap_or_default();
        let at = match at.as_str() {
            path if path.starts_with('$') => Place::Named(at),
            "" => Place::Here(at),
            path if path.starts_with('/') => Place::Here(at),
            _ => {
                let wanted = "`at` must be a JSON Pointer (`/result/x`) or `$name/pointer`";
                notes.wrong(node.get("at").map_or(node.span, |n| n.span), wanted);
                return None;
            }
        };
        let decides = notes.string(node, "decides");
        if let (Some(id), Some(place)) = (&decides, node.get("decides"))
            && !self.decides.contains(id)
        {
            notes.wrong(
                place.span,
                format!("`{id}` is not in `decides` of this case"),
            );
        }
        Some(Expect {
            at,
            test,
            say: notes.string(node, "say"),
            decides,
            is_guess: notes.flag(node, "guess", false),
            line: self.reader.line(node),
        })
    }
}

fn test(name: &str, value: &Node, node: &Node, notes: &mut Notes) -> Option<Test> {
    Some(match name {
        "result" => {
            notes.word(node, name, "any", &["any"]);
            Test::Result
        }
        "answer" => {
            notes.word(node, name, "any", &["any"]);
            Test::Answer
        }
        "error" => Test::Error(codes(value, notes)),
        "is" => Test::Is(to_json(value)),
        "is_not" => Test::IsNot(to_json(value)),
        "one_of" => Test::OneOf(value.items().iter().map(to_json).collect()),
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
            Test::Type(notes.word(node, "type", "object", &types))
        }
        "present" => Test::Present(notes.flag(node, "present", true)),
        "non_empty" => {
            affirmed(value, name, notes);
            Test::NonEmpty
        }
        "matches" => {
            let pattern = notes.string(node, "matches")?;
            match regress::Regex::new(&pattern) {
                Ok(regex) => Test::Matches(Box::new(regex), pattern),
                Err(error) => {
                    notes.wrong(value.span, format!("invalid ECMAScript pattern: {error}"));
                    return None;
                }
            }
        }
        "contains" => Test::Contains(to_json(value)),
        "lacks" => Test::Lacks(to_json(value)),
        "distinct" => {
            affirmed(value, name, notes);
            Test::Distinct
        }
        "same_members" => Test::SameMembers(to_json(value)),
        "absolute" => {
            affirmed(value, name, notes);
            Test::Absolute
        }
        "at_least" | "at_most" => {
            let number = to_json(value).as_f64();
            let Some(number) = number else {
                notes.wrong(value.span, format!("`{name}` must be a number"));
                return None;
            };
            match name {
                "at_least" => Test::AtLeast(number),
                _ => Test::AtMost(number),
            }
        }
        "length" => Test::Length(notes.number(node, "length", 0, 1 << 32)?),
        _ => {
            let schema = to_json(value);
            match jsonschema::validator_for(&schema) {
                Ok(validator) => Test::Schema(Box::new(schema), Box::new(validator)),
                Err(error) => {
                    notes.wrong(value.span, format!("invalid JSON Schema: {error}"));
                    return None;
                }
            }
        }
    })
}

/// Reports a value other than `true`, for tests without a parameter.
fn affirmed(value: &Node, name: &str, notes: &mut Notes) {
    if value.as_bool() != Some(true) {
        notes.wrong(value.span, format!("`{name}` must be true"));
    }
}

/// `any`, a code, or a list of codes.
fn codes(value: &Node, notes: &mut Notes) -> Vec<i64> {
    if let Some(code) = value.as_int() {
        return vec![code];
    }
    let codes: Option<Vec<i64>> = value.items().iter().map(Node::as_int).collect();
    match codes {
        Some(codes) if value.is_seq() => codes,
        _ => {
            if value.as_str() != Some("any") {
                notes.wrong(
                    value.span,
                    "`error` must be `any`, a code, or a list of codes",
                );
            }
            Vec::new()
        }
    }
}
