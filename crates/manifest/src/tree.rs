//! The spanned tree: what the YAML of a manifest says, and at which bytes it says so.
//!
//! Values are resolved by the YAML 1.2 core schema. Spans are byte offsets into the
//! *file*, not into the frontmatter, so a finding never needs to be shifted.

use smol_str::SmolStr;

/// Half-open byte range in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Self {
        Span {
            start: start as u32,
            end: end as u32,
        }
    }
    pub fn empty(at: usize) -> Self {
        Span::new(at, at)
    }
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
    /// From the start of `self` to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start,
            end: other.end,
        }
    }
    pub fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// How a node is written. Fixes keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
    Folded,
    /// Indented mapping or sequence.
    Block,
    /// `{…}` or `[…]`.
    Flow,
}

impl Style {
    pub fn is_quoted(self) -> bool {
        matches!(self, Style::SingleQuoted | Style::DoubleQuoted)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(SmolStr),
    Seq(Vec<Node>),
    Map(Vec<Entry>),
}

/// One value with its place. A mapping in block style spans from its first key to the
/// end of its last value; a missing value (`key:`) is an empty span after the colon.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub span: Span,
    pub style: Style,
    pub value: Value,
}

/// What a mapping key was before it became text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Str,
    Int,
    /// Null, boolean or float: never a legal key in these formats.
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: SmolStr,
    pub key_span: Span,
    pub key_kind: KeyKind,
    pub value: Node,
}

impl Entry {
    /// Key and value together.
    pub fn span(&self) -> Span {
        Span {
            start: self.key_span.start,
            end: self.value.span.end.max(self.key_span.end),
        }
    }
}

impl Node {
    pub fn type_name(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "integer",
            Value::Float(_) => "number",
            Value::Str(_) => "string",
            Value::Seq(_) => "array",
            Value::Map(_) => "object",
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(b) => Some(b),
            _ => None,
        }
    }
    pub fn as_int(&self) -> Option<i64> {
        match self.value {
            Value::Int(i) => Some(i),
            _ => None,
        }
    }
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }
    pub fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }
    pub fn is_seq(&self) -> bool {
        matches!(self.value, Value::Seq(_))
    }
    pub fn is_true(&self) -> bool {
        self.as_bool() == Some(true)
    }

    /// Items of a sequence; empty for anything else, so that a rule stays silent where
    /// the type is wrong and `fm-type` already speaks.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::Seq(items) => items,
            _ => &[],
        }
    }
    /// Entries of a mapping; empty for anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }
    /// String items of a sequence with their nodes; other items are passed over.
    pub fn strings(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.items().iter().filter_map(|n| Some((n.as_str()?, n)))
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|e| e.key == key)
    }
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|e| &e.value)
    }
    /// Value behind a chain of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }
    /// Entry behind a chain of keys.
    pub fn entry_at(&self, path: &[&str]) -> Option<&Entry> {
        let (last, parents) = path.split_last()?;
        self.at(parents)?.entry(last)
    }
    pub fn str_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_str()
    }
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Document, Node};

    #[test]
    fn every_node_is_found_again() {
        let text = "---\na: &x\n  b: [1, {c: , d: []}]\n  e:\ny: *x\nz:\n  <<: *x\n  f: {}\n---\n";
        let doc = Document::parse("A.md", text.to_owned());
        let root = doc.root.as_ref().unwrap();
        fn check(doc: &Document, node: &Node) {
            let pointer = doc.pointer_of(node).unwrap();
            assert!(
                std::ptr::eq(doc.at_pointer(&pointer).unwrap(), node),
                "{pointer}"
            );
            node.items().iter().for_each(|n| check(doc, n));
            node.entries().iter().for_each(|e| check(doc, &e.value));
        }
        check(&doc, root);
        assert_eq!(doc.path_of(&root.clone()), None);
    }
}
