//! One manifest: its text, its parts, its tree, and what kept it from being read.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::doctype::Doctype;
pub use crate::frontmatter::Frontmatter;
use crate::frontmatter::split;
use crate::lines::{LineIndex, Position};
use crate::places::Places;
use crate::tree::{Entry, Node, Span, Value};
use crate::yaml::{self, Oddity};

/// What keeps a file from being a readable manifest. The linter gives each its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    Missing,
    Empty,
    FenceNotFirst,
    FenceUnclosed,
    NotUtf8,
    Syntax,
    MultipleDocuments,
    TooDeep,
    TooManyNodes,
    NotMapping,
    DuplicateKey,
    KeyNotString,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub kind: ProblemKind,
    pub span: Span,
    pub message: String,
    /// The first of two duplicate keys, the bracket that was never closed.
    pub related: Option<(Span, String)>,
}

impl Problem {
    pub fn new(kind: ProblemKind, span: Span, message: impl Into<String>) -> Self {
        Problem {
            kind,
            span,
            message: message.into(),
            related: None,
        }
    }
    pub fn related(mut self, span: Span, message: impl Into<String>) -> Self {
        self.related = Some((span, message.into()));
        self
    }
}

#[derive(Debug)]
pub struct Document {
    pub path: PathBuf,
    pub text: String,
    /// `None`: neither the name nor the shape tells.
    pub doctype: Option<Doctype>,
    pub front: Option<Frontmatter>,
    /// Always a mapping; `None` where the frontmatter could not be read as one.
    pub root: Option<Node>,
    pub problems: Vec<Problem>,
    pub oddities: Vec<Oddity>,
    lines: OnceLock<LineIndex>,
    places: Places,
    /// Bytes of re-reading that edits of this document have cost.
    reread: AtomicUsize,
}

impl Document {
    /// Counts one more reading of the whole text, as a check of an edit takes; the bytes that
    /// were read before.
    pub fn count_reread(&self) -> usize {
        self.reread.fetch_add(self.text.len(), Ordering::Relaxed)
    }

    pub fn parse(path: impl Into<PathBuf>, text: String) -> Document {
        let path = path.into();
        let mut doc = Document {
            doctype: doctype_by_name(&path),
            path,
            text,
            front: None,
            root: None,
            problems: Vec::new(),
            oddities: Vec::new(),
            lines: OnceLock::new(),
            places: Places::default(),
            reread: AtomicUsize::new(0),
        };
        let front = match split(&doc.text) {
            Ok((front, problem)) => {
                doc.problems.extend(problem);
                front
            }
            Err(problem) => {
                doc.problems.push(problem);
                return doc;
            }
        };
        doc.front = Some(front);
        let source = doc.text.get(front.yaml.range()).unwrap_or("");
        let parsed = yaml::parse(source, front.yaml.start as usize);
        doc.problems.extend(parsed.problems);
        doc.oddities = parsed.oddities;
        match parsed.root {
            Some(root) if root.is_map() => doc.root = Some(root),
            Some(root) if root.is_null() => doc.problems.push(Problem::new(
                ProblemKind::Empty,
                front.open,
                "the frontmatter is empty",
            )),
            Some(root) => doc.problems.push(Problem::new(
                ProblemKind::NotMapping,
                root.span,
                format!(
                    "the frontmatter is not a mapping but a {}",
                    root.type_name()
                ),
            )),
            None => {}
        }
        if doc.doctype.is_none() {
            doc.doctype = doc.root.as_ref().and_then(Doctype::from_shape);
        }
        doc
    }

    /// A file that is all YAML, without fences.
    pub fn bare(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Document {
        let mut doc = Document::from_bytes(path, bytes);
        if doc.problems.iter().any(|p| p.kind == ProblemKind::NotUtf8) {
            return doc;
        }
        let parsed = yaml::parse(&doc.text, 0);
        doc.front = None;
        doc.problems = parsed.problems;
        doc.oddities = parsed.oddities;
        doc.root = parsed.root;
        if let Some(other) = doc.root.take_if(|root| !root.is_map()) {
            let what = format!("the file is not a mapping but a {}", other.type_name());
            let problem = Problem::new(ProblemKind::NotMapping, other.span, what);
            doc.problems.push(problem);
        }
        doc
    }

    /// Reads bytes that may not be UTF-8; such a file is a document with one problem.
    pub fn from_bytes(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Document {
        match String::from_utf8(bytes) {
            Ok(text) => Document::parse(path, text),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let mut bytes = error.into_bytes();
                let bad = bytes.get(at).copied().unwrap_or(0);
                bytes.truncate(at);
                // The readable head is kept so that the place can be shown.
                let text = String::from_utf8(bytes).unwrap_or_default();
                let path = path.into();
                Document {
                    doctype: doctype_by_name(&path),
                    path,
                    problems: vec![Problem::new(
                        ProblemKind::NotUtf8,
                        Span::empty(text.len()),
                        format!("the file is not UTF-8: byte 0x{bad:02x} at offset {at}"),
                    )],
                    text,
                    front: None,
                    root: None,
                    oddities: Vec::new(),
                    lines: OnceLock::new(),
                    places: Places::default(),
                    reread: AtomicUsize::new(0),
                }
            }
        }
    }

    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// The bytes of a span as text.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or("")
    }

    pub fn body(&self) -> &str {
        self.front.map_or("", |front| self.slice(front.body))
    }

    pub fn lines(&self) -> &LineIndex {
        self.lines.get_or_init(|| LineIndex::new(&self.text))
    }

    pub fn position(&self, byte: u32) -> Position {
        self.lines().position(&self.text, byte)
    }

    /// JSON pointer of a node of this document, found by identity.
    pub fn pointer_of(&self, node: &Node) -> Option<String> {
        let mut at = self.root.as_ref()?;
        let mut pointer = String::new();
        for index in self.path_of(node)? {
            pointer.push('/');
            at = match &at.value {
                Value::Map(entries) => {
                    let entry = entries.get(index)?;
                    pointer.push_str(&entry.key.replace('~', "~0").replace('/', "~1"));
                    &entry.value
                }
                _ => {
                    pointer.push_str(&index.to_string());
                    at.items().get(index)?
                }
            };
        }
        Some(pointer)
    }

    /// Positions of the children on the way from the root to a node of this document, found
    /// by identity.
    pub fn path_of(&self, node: &Node) -> Option<Vec<usize>> {
        self.places.way(self.root.as_ref()?, node)
    }

    /// The collection that holds a node of this document.
    pub fn parent_of(&self, node: &Node) -> Option<&Node> {
        let way = self.path_of(node)?;
        let (_, way) = way.split_last()?;
        way.iter()
            .try_fold(self.root.as_ref()?, |node, index| match &node.value {
                Value::Map(entries) => entries.get(*index).map(|e| &e.value),
                _ => node.items().get(*index),
            })
    }

    /// JSON pointer of the value behind a key of this document, found by identity.
    pub fn pointer_of_entry(&self, entry: &Entry) -> Option<String> {
        self.pointer_of(&entry.value)
    }

    /// Node at a JSON pointer.
    pub fn at_pointer(&self, pointer: &str) -> Option<&Node> {
        let mut node = self.root.as_ref()?;
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            node = match &node.value {
                Value::Map(_) => node.get(&token)?,
                Value::Seq(items) => items.get(token.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(node)
    }
}

fn doctype_by_name(path: &Path) -> Option<Doctype> {
    Doctype::from_file_name(path.file_name()?.to_str()?)
}
