//! Reads this project's own YAML files: scenarios, suites, prompts. It gives typed access to the
//! keys of a spanned mapping. Errors are collected with their places and reading continues, so
//! that one run reports all of them.

use serde_json::Value as Json;

use crate::{LineIndex, Node, Span, Value, to_json, yaml};
use agentproto_text::{closest_of, one_of};

/// An error in such a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Line, starting at 1.
    pub line: u32,
    /// Column, starting at 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

/// Reads a file whose root must be a mapping, or returns all errors in it. `what` is the error
/// for a root that is not a mapping.
pub fn read<T>(
    text: &str,
    what: &str,
    take: impl FnOnce(&Node, &mut FieldReader) -> T,
) -> Result<T, Vec<FieldError>> {
    let parsed = yaml::parse_with_subject(text, 0, "the file");
    let mut reader = FieldReader::default();
    for problem in &parsed.problems {
        reader.error(problem.span, problem.explained());
    }
    let taken = match &parsed.root {
        Some(root) if root.is_map() => Some(take(root, &mut reader)),
        // Invalid YAML was already reported.
        _ if !reader.errors.is_empty() => None,
        _ => {
            reader.error(Span::empty(0), what);
            None
        }
    };
    match taken {
        Some(taken) if reader.errors.is_empty() => Ok(taken),
        _ => Err(reader.into_errors(text)),
    }
}

/// Collects the errors of one file.
#[derive(Default)]
pub struct FieldReader {
    /// Errors so far, each with its place.
    pub errors: Vec<(Span, String)>,
}

impl FieldReader {
    fn into_errors(self, text: &str) -> Vec<FieldError> {
        let lines = LineIndex::new(text);
        let located = self.errors.into_iter().map(|(span, message)| {
            let place = lines.position(text, span.start);
            FieldError {
                line: place.line,
                column: place.column,
                message,
            }
        });
        let mut errors: Vec<FieldError> = located.collect();
        errors.sort_by_key(|m| (m.line, m.column));
        errors.dedup();
        errors
    }

    /// Records an error.
    pub fn error(&mut self, span: Span, message: impl Into<String>) {
        self.errors.push((span, message.into()));
    }

    /// Records an error for each unknown key, and for a node that is not a mapping.
    pub fn check_keys(&mut self, node: &Node, what: &str, known: &[&str]) {
        if !node.is_map() {
            let found = node.type_name();
            self.error(
                node.span,
                format!("{what} must be a mapping, found {found}"),
            );
        }
        for entry in node.entries() {
            if known.contains(&entry.key.as_str()) {
                continue;
            }
            let hint = match closest_of(&entry.key, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None if known.is_empty() => "no keys are allowed here".to_owned(),
                None => format!("expected {}", one_of(known)),
            };
            self.error(
                entry.key_span,
                format!("unknown key `{}` in {what}; {hint}", entry.key),
            );
        }
    }

    fn typed<'a, T>(
        &mut self,
        node: &'a Node,
        key: &str,
        expected: &str,
        take: impl Fn(&'a Node) -> Option<T>,
    ) -> Option<T> {
        let value = node.get(key)?;
        let taken = take(value);
        if taken.is_none() {
            let found = value.type_name();
            self.error(
                value.span,
                format!("`{key}` must be {expected}, found {found}"),
            );
        }
        taken
    }

    /// An optional string.
    pub fn string(&mut self, node: &Node, key: &str) -> Option<String> {
        self.typed(node, key, "a string", |n| n.as_str().map(str::to_owned))
    }

    /// A required string. If it is missing, the error points at the mapping.
    pub fn required_string(&mut self, node: &Node, key: &str, what: &str) -> String {
        if node.is_map() && !node.has(key) {
            self.error(node.span, format!("{what} needs `{key}`"));
        }
        self.string(node, key).unwrap_or_default()
    }

    /// A boolean, or `default` if the key is absent.
    pub fn bool_or(&mut self, node: &Node, key: &str, default: bool) -> bool {
        self.typed(node, key, "true or false", Node::as_bool)
            .unwrap_or(default)
    }

    /// An optional integer between `least` and `most`.
    pub fn number(&mut self, node: &Node, key: &str, least: u64, most: u64) -> Option<u64> {
        let value = node.get(key)?;
        self.number_in(value, key, least, most)
    }

    /// The integer in `value`, between `least` and `most`. `key` names it in the error.
    pub fn number_in(&mut self, value: &Node, key: &str, least: u64, most: u64) -> Option<u64> {
        let number = value.as_int().and_then(|n| u64::try_from(n).ok());
        let number = number.filter(|n| (least..=most).contains(n));
        if number.is_none() {
            self.error(
                value.span,
                format!("`{key}` must be an integer between {least} and {most}"),
            );
        }
        number
    }

    /// One of the `allowed` words, or `default` if the key is absent.
    pub fn one_of(&mut self, node: &Node, key: &str, default: &str, allowed: &[&str]) -> String {
        let Some(value) = node.get(key) else {
            return default.to_owned();
        };
        match value.as_str().filter(|word| allowed.contains(word)) {
            Some(word) => word.to_owned(),
            None => {
                self.error(value.span, format!("`{key}` must be {}", one_of(allowed)));
                default.to_owned()
            }
        }
    }

    /// The strings in `value`, which is one string or a list of strings.
    pub fn strings_in(&mut self, value: &Node, key: &str) -> Vec<String> {
        match &value.value {
            Value::Str(text) => vec![text.to_string()],
            Value::Seq(items) => {
                let mut texts = Vec::with_capacity(items.len());
                for item in items {
                    match item.as_str() {
                        Some(text) => texts.push(text.to_owned()),
                        None => {
                            let found = item.type_name();
                            self.error(
                                item.span,
                                format!("`{key}` must contain only strings, found {found}"),
                            );
                        }
                    }
                }
                texts
            }
            _ => {
                self.error(
                    value.span,
                    format!("`{key}` must be a string or a list of strings"),
                );
                Vec::new()
            }
        }
    }

    /// The strings of an optional key, which is one string or a list of strings.
    pub fn strings(&mut self, node: &Node, key: &str) -> Vec<String> {
        let value = node.get(key);
        value.map_or_else(Vec::new, |value| self.strings_in(value, key))
    }

    /// The items of an optional list.
    pub fn items<'a>(&mut self, node: &'a Node, key: &str) -> &'a [Node] {
        let list = self.typed(node, key, "a list", |n| n.is_seq().then_some(n));
        list.map_or(&[], Node::items)
    }

    /// The entries of an optional mapping of strings.
    pub fn pairs(&mut self, node: &Node, key: &str) -> Vec<(String, String)> {
        let map = self.typed(node, key, "a mapping of strings", |n| {
            n.is_map().then_some(n)
        });
        let mut pairs = Vec::new();
        for entry in map.map_or(&[][..], Node::entries) {
            match entry.value.as_str() {
                Some(text) => pairs.push((entry.key.to_string(), text.to_owned())),
                None => self.error(
                    entry.value.span,
                    format!("`{key}.{}` must be a string", entry.key),
                ),
            }
        }
        pairs
    }

    /// An optional value of any type, as JSON.
    pub fn json(&mut self, node: &Node, key: &str) -> Option<Json> {
        node.get(key).map(to_json)
    }
}
