//! Reads a block of a manifest. A value of the wrong type is an error, and an unknown key is
//! reported. Nothing is ignored silently, because an ignored key might have been a limit.

use crate::clause::Clause;
use agentproto_manifest::{Document, Entry, Node};

use super::error::{ManifestPosition, PolicyError};

/// A mapping inside a manifest, with the path to it.
#[derive(Clone)]
pub struct Block<'d> {
    pub doc: &'d Document,
    pub node: &'d Node,
    /// JSON Pointer of the mapping.
    pub pointer: String,
    /// The path as people write it: `fs`, `env.auth`, or empty for the sandbox block itself.
    pub name: String,
}

/// A value with its clause.
#[derive(Clone, Debug)]
pub struct ClauseValue<T> {
    pub clause: Clause,
    pub value: T,
    pub position: ManifestPosition,
}

/// Strings by key.
pub type Pairs = Vec<(String, ClauseValue<String>)>;

impl<'d> Block<'d> {
    /// The block at a pointer, or an error if it is not a mapping.
    pub fn new(doc: &'d Document, node: &'d Node, pointer: &str) -> Result<Self, PolicyError> {
        let block = Block {
            doc,
            node,
            pointer: pointer.to_owned(),
            name: String::new(),
        };
        match node.is_map() {
            true => Ok(block),
            false => Err(block.type_error(node, "the sandbox block", "a mapping")),
        }
    }

    pub fn invalid(&self, node: &Node, what: impl Into<String>) -> PolicyError {
        PolicyError::Invalid {
            at: ManifestPosition::new(self.doc, node.span),
            what: what.into(),
        }
    }

    fn type_error(&self, node: &Node, what: &str, expected: &str) -> PolicyError {
        let found = match node.type_name() {
            "array" => "a list",
            "object" => "a mapping",
            "integer" => "an integer",
            "null" => "null",
            other => {
                return self.invalid(node, format!("{what} must be {expected}, found a {other}"));
            }
        };
        self.invalid(node, format!("{what} must be {expected}, found {found}"))
    }

    pub fn named(&self, key: &str) -> String {
        match self.name.as_str() {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }

    fn pointer_to(&self, key: &str) -> String {
        let key = key.replace('~', "~0").replace('/', "~1");
        format!("{}/{key}", self.pointer)
    }

    /// `key: value` as a clause, with the value as text.
    pub fn clause(&self, key: &str, value: &str) -> Clause {
        let text = format!("{} {value}", self.named(key));
        Clause::new(self.pointer_to(key), text.trim_end())
    }

    fn clause_value<T>(&self, key: &str, node: &Node, text: &str, value: T) -> ClauseValue<T> {
        ClauseValue {
            clause: self.clause(key, text),
            value,
            position: ManifestPosition::new(self.doc, node.span),
        }
    }

    /// The mapping at a key.
    pub fn block(&self, key: &str) -> Result<Option<Block<'d>>, PolicyError> {
        let Some(node) = self.node.get(key) else {
            return Ok(None);
        };
        if !node.is_map() {
            return Err(self.type_error(node, &format!("`{}`", self.named(key)), "a mapping"));
        }
        Ok(Some(Block {
            doc: self.doc,
            node,
            pointer: self.pointer_to(key),
            name: self.named(key),
        }))
    }

    pub fn flag(&self, key: &str) -> Result<Option<ClauseValue<bool>>, PolicyError> {
        let Some(node) = self.node.get(key) else {
            return Ok(None);
        };
        match node.as_bool() {
            Some(flag) => Ok(Some(self.clause_value(key, node, &flag.to_string(), flag))),
            None => Err(self.type_error(node, &format!("`{}`", self.named(key)), "true or false")),
        }
    }

    pub fn text(&self, key: &str) -> Result<Option<ClauseValue<String>>, PolicyError> {
        let Some(node) = self.node.get(key) else {
            return Ok(None);
        };
        let text = self.text_of(node, &self.named(key))?;
        Ok(Some(self.clause_value(key, node, &text, text.clone())))
    }

    /// An integer above zero.
    pub fn amount(&self, key: &str) -> Result<Option<ClauseValue<u64>>, PolicyError> {
        let Some(node) = self.node.get(key) else {
            return Ok(None);
        };
        let amount = node.as_int().and_then(|n| u64::try_from(n).ok());
        match amount.filter(|n| *n > 0) {
            Some(amount) => Ok(Some(self.clause_value(
                key,
                node,
                &amount.to_string(),
                amount,
            ))),
            None if node.as_int().is_some() => {
                Err(self.invalid(node, format!("`{}` must be above zero", self.named(key))))
            }
            None => Err(self.type_error(node, &format!("`{}`", self.named(key)), "a whole number")),
        }
    }

    /// A list of strings, or `None` if the key is missing.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<ClauseValue<String>>>, PolicyError> {
        let Some(node) = self.node.get(key) else {
            return Ok(None);
        };
        if !node.is_seq() {
            return Err(self.type_error(node, &format!("`{}`", self.named(key)), "a list"));
        }
        let read = |(i, item): (usize, &Node)| {
            let text = self.text_of(item, &format!("{}[{i}]", self.named(key)))?;
            let mut declared = self.clause_value(key, item, &text, text.clone());
            declared.clause.pointer = format!("{}/{i}", self.pointer_to(key));
            Ok(declared)
        };
        let items = node.items().iter().enumerate();
        items.map(read).collect::<Result<_, _>>().map(Some)
    }

    /// A mapping of strings.
    pub fn pairs(&self, key: &str) -> Result<Option<Pairs>, PolicyError> {
        let Some(block) = self.block(key)? else {
            return Ok(None);
        };
        let read = |entry: &Entry| {
            let text = block.text_of(&entry.value, &block.named(&entry.key))?;
            let declared = block.clause_value(&entry.key, &entry.value, "", text);
            Ok((entry.key.to_string(), declared))
        };
        let pairs = block.node.entries().iter().map(read);
        pairs.collect::<Result<_, _>>().map(Some)
    }

    fn text_of(&self, node: &Node, what: &str) -> Result<String, PolicyError> {
        let Some(text) = node.as_str() else {
            return Err(self.type_error(node, &format!("`{what}`"), "a string"));
        };
        match text.contains('\0') {
            true => Err(self.invalid(node, format!("`{what}` contains a NUL character"))),
            false => Ok(text.to_owned()),
        }
    }

    /// Unknown keys, each with the reason why it cannot be enforced.
    pub fn unknown(&self, known: &[&str], spec: &str) -> Vec<(Clause, String)> {
        let is_unknown = |e: &&Entry| !known.contains(&e.key.as_str());
        let entries = self.node.entries().iter().filter(is_unknown);
        entries
            .map(|entry| {
                let near = known
                    .iter()
                    .map(|k| (strsim::damerau_levenshtein(k, &entry.key), *k))
                    .min()
                    .filter(|(distance, k)| *distance <= 2 && *distance < k.len());
                let hint = near.map_or_else(String::new, |(_, k)| format!("; did you mean `{k}`?"));
                let why = format!("{spec} has no such key, so it cannot be enforced{hint}");
                (self.clause(&entry.key, ""), why)
            })
            .collect()
    }
}
