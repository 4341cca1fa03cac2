//! Reading the YAML files of our own making: scenarios, suites, prompts. Typed access to the
//! keys of a spanned mapping; every mistake is noted with its place, and reading goes on, so that
//! one run shows them all.

use serde_json::Value as Json;

use crate::{LineIndex, Node, Span, Value, to_json, yaml};
use agentproto_text::{closest_of, one_of};

/// Something wrong in such a file; line and column from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub line: u32,
    pub column: u32,
    pub message: String,
}

/// Reads a file whose root must be a mapping, or says everything that is wrong with it.
pub fn read<T>(
    text: &str,
    what: &str,
    take: impl FnOnce(&Node, &mut Notes) -> T,
) -> Result<T, Vec<Mistake>> {
    let parsed = yaml::parse_called(text, 0, "this");
    let mut notes = Notes::default();
    for problem in &parsed.problems {
        notes.wrong(problem.span, problem.message.clone());
    }
    let taken = match &parsed.root {
        Some(root) if root.is_map() => Some(take(root, &mut notes)),
        // What is no YAML was told already.
        _ if !notes.mistakes.is_empty() => None,
        _ => {
            notes.wrong(Span::empty(0), what);
            None
        }
    };
    match taken {
        Some(taken) if notes.mistakes.is_empty() => Ok(taken),
        _ => Err(notes.placed(text)),
    }
}

#[derive(Default)]
pub struct Notes {
    pub mistakes: Vec<(Span, String)>,
}

impl Notes {
    fn placed(self, text: &str) -> Vec<Mistake> {
        let lines = LineIndex::new(text);
        let placed = self.mistakes.into_iter().map(|(span, message)| {
            let place = lines.position(text, span.start);
            Mistake {
                line: place.line,
                column: place.column,
                message,
            }
        });
        let mut mistakes: Vec<Mistake> = placed.collect();
        mistakes.sort_by_key(|m| (m.line, m.column));
        mistakes.dedup();
        mistakes
    }

    pub fn wrong(&mut self, span: Span, message: impl Into<String>) {
        self.mistakes.push((span, message.into()));
    }

    /// Notes keys that nobody reads, and a node that is no mapping at all.
    pub fn keys(&mut self, node: &Node, what: &str, known: &[&str]) {
        if !node.is_map() {
            let found = node.type_name();
            self.wrong(
                node.span,
                format!("{what} is a mapping, but this is {found}"),
            );
        }
        for entry in node.entries() {
            if known.contains(&entry.key.as_str()) {
                continue;
            }
            let hint = match closest_of(&entry.key, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None if known.is_empty() => "it takes none".to_owned(),
                None => format!("known are {}", one_of(known)),
            };
            self.wrong(
                entry.key_span,
                format!("{what} has no key `{}`; {hint}", entry.key),
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
            self.wrong(
                value.span,
                format!("`{key}` must be {expected}, not {found}"),
            );
        }
        taken
    }

    pub fn string(&mut self, node: &Node, key: &str) -> Option<String> {
        self.typed(node, key, "a string", |n| n.as_str().map(str::to_owned))
    }

    /// A string that must be there; its absence is noted at the mapping.
    pub fn need(&mut self, node: &Node, key: &str, what: &str) -> String {
        if node.is_map() && !node.has(key) {
            self.wrong(node.span, format!("{what} needs `{key}`"));
        }
        self.string(node, key).unwrap_or_default()
    }

    pub fn flag(&mut self, node: &Node, key: &str, default: bool) -> bool {
        self.typed(node, key, "true or false", Node::as_bool)
            .unwrap_or(default)
    }

    pub fn number(&mut self, node: &Node, key: &str, least: u64, most: u64) -> Option<u64> {
        let value = node.get(key)?;
        self.number_in(value, key, least, most)
    }

    pub fn number_in(&mut self, value: &Node, key: &str, least: u64, most: u64) -> Option<u64> {
        let number = value.as_int().and_then(|n| u64::try_from(n).ok());
        let number = number.filter(|n| (least..=most).contains(n));
        if number.is_none() {
            self.wrong(
                value.span,
                format!("`{key}` must be a number from {least} to {most}"),
            );
        }
        number
    }

    /// One of a closed list of words.
    pub fn word(&mut self, node: &Node, key: &str, default: &str, allowed: &[&str]) -> String {
        let Some(value) = node.get(key) else {
            return default.to_owned();
        };
        match value.as_str().filter(|word| allowed.contains(word)) {
            Some(word) => word.to_owned(),
            None => {
                self.wrong(value.span, format!("`{key}` must be {}", one_of(allowed)));
                default.to_owned()
            }
        }
    }

    /// A list of strings, or one string.
    pub fn texts(&mut self, value: &Node, key: &str) -> Vec<String> {
        match &value.value {
            Value::Str(text) => vec![text.to_string()],
            Value::Seq(items) => {
                let mut texts = Vec::with_capacity(items.len());
                for item in items {
                    match item.as_str() {
                        Some(text) => texts.push(text.to_owned()),
                        None => {
                            let found = item.type_name();
                            self.wrong(
                                item.span,
                                format!("`{key}` is a list of strings, but this is {found}"),
                            );
                        }
                    }
                }
                texts
            }
            _ => {
                self.wrong(
                    value.span,
                    format!("`{key}` must be a string or a list of strings"),
                );
                Vec::new()
            }
        }
    }

    pub fn list(&mut self, node: &Node, key: &str) -> Vec<String> {
        let value = node.get(key);
        value.map_or_else(Vec::new, |value| self.texts(value, key))
    }

    /// The items of a list that may be absent.
    pub fn items<'a>(&mut self, node: &'a Node, key: &str) -> &'a [Node] {
        let list = self.typed(node, key, "a list", |n| n.is_seq().then_some(n));
        list.map_or(&[], Node::items)
    }

    pub fn pairs(&mut self, node: &Node, key: &str) -> Vec<(String, String)> {
        let map = self.typed(node, key, "a mapping of strings", |n| {
            n.is_map().then_some(n)
        });
        let mut pairs = Vec::new();
        for entry in map.map_or(&[][..], Node::entries) {
            match entry.value.as_str() {
                Some(text) => pairs.push((entry.key.to_string(), text.to_owned())),
                None => self.wrong(
                    entry.value.span,
                    format!("`{key}.{}` must be a string", entry.key),
                ),
            }
        }
        pairs
    }

    pub fn json(&mut self, node: &Node, key: &str) -> Option<Json> {
        node.get(key).map(to_json)
    }
}
