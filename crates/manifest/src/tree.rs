//! The spanned tree: the YAML values of a manifest, each with its byte range.
//!
//! Values are resolved by the YAML 1.2 core schema. Spans are byte offsets into the *file*, not
//! into the frontmatter, so a finding never needs to be shifted.

use smol_str::SmolStr;

/// Half-open byte range in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// The span from `start` up to, but not including, `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Span {
            start: start as u32,
            end: end as u32,
        }
    }
    /// An empty span at `at`.
    pub fn empty(at: usize) -> Self {
        Span::new(at, at)
    }
    /// The span as a range.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
    /// Length in bytes.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }
    /// Whether the span has no bytes.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
    /// The span from the start of `self` to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start,
            end: other.end,
        }
    }
    /// Whether `other` is inside this span.
    pub fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// How a node is written. Fixes keep the style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A scalar without quotes.
    Plain,
    /// A scalar in single quotes.
    SingleQuoted,
    /// A scalar in double quotes.
    DoubleQuoted,
    /// A block scalar with `|`.
    Literal,
    /// A block scalar with `>`.
    Folded,
    /// An indented mapping or sequence.
    Block,
    /// A mapping or sequence in `{…}` or `[…]`.
    Flow,
}

impl Style {
    /// Whether the scalar is in single or double quotes.
    pub fn is_quoted(self) -> bool {
        matches!(self, Style::SingleQuoted | Style::DoubleQuoted)
    }
}

/// A YAML value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null, also for a missing value.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// A float, or an integer that does not fit 64 bits.
    Float(f64),
    /// A string.
    Str(SmolStr),
    /// A sequence.
    Seq(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

/// A value with its place. A mapping in block style spans from its first key to the end of its
/// last value. A missing value (`key:`) has an empty span after the colon.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Byte range in the file.
    pub span: Span,
    /// How the value is written.
    pub style: Style,
    /// The value.
    pub value: Value,
}

/// Type of a mapping key before it was converted to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A string.
    Str,
    /// An integer.
    Int,
    /// Anything else, such as null, a boolean or a float. Never a valid key in these formats.
    Other,
}

/// A key and its value in a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key as text.
    pub key: SmolStr,
    /// Byte range of the key.
    pub key_span: Span,
    /// Type of the key.
    pub key_kind: KeyKind,
    /// The value.
    pub value: Node,
}

impl Entry {
    /// Byte range of key and value.
    pub fn span(&self) -> Span {
        Span {
            start: self.key_span.start,
            end: self.value.span.end.max(self.key_span.end),
        }
    }
}

impl Node {
    /// Name of the value's type in JSON Schema, such as `object` for a mapping.
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

    /// The string, or `None` for another type.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }
    /// The boolean, or `None` for another type.
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(b) => Some(b),
            _ => None,
        }
    }
    /// The integer, or `None` for another type.
    pub fn as_int(&self) -> Option<i64> {
        match self.value {
            Value::Int(i) => Some(i),
            _ => None,
        }
    }
    /// Whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }
    /// Whether the value is a mapping.
    pub fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }
    /// Whether the value is a sequence.
    pub fn is_seq(&self) -> bool {
        matches!(self.value, Value::Seq(_))
    }
    /// Whether the value is the boolean true.
    pub fn is_true(&self) -> bool {
        self.as_bool() == Some(true)
    }

    /// Items of a sequence. Empty for another type, so that a rule reports nothing if `fm-type`
    /// already reports the wrong type.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::Seq(items) => items,
            _ => &[],
        }
    }
    /// Entries of a mapping. Empty for another type.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }
    /// String items of a sequence with their nodes. Other items are skipped.
    pub fn strings(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.items().iter().filter_map(|n| Some((n.as_str()?, n)))
    }

    /// Entry of a key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|e| e.key == key)
    }
    /// Value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|e| &e.value)
    }
    /// Value at a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }
    /// Entry at a path of keys.
    pub fn entry_at(&self, path: &[&str]) -> Option<&Entry> {
        let (last, parents) = path.split_last()?;
        self.at(parents)?.entry(last)
    }
    /// String at a path of keys.
    pub fn str_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_str()
    }
    /// Whether the mapping has a key.
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Document, Node};

    #[test]
    fn the_pointer_of_every_node_leads_back_to_it() {
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
