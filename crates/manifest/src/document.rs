//! One manifest: its text, its parts, its tree, and the problems found while parsing it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::doctype::Doctype;
pub use crate::frontmatter::Frontmatter;
use crate::frontmatter::split;
use crate::lines::{LineIndex, Position};
use crate::node_paths::NodePaths;
use crate::tree::{Entry, Node, Span, Value};
use crate::yaml::{self, YamlQuirk};

/// Why a file cannot be read as a manifest. The linter maps each kind to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The file has no frontmatter.
    Missing,
    /// The frontmatter contains no keys.
    Empty,
    /// Text precedes the opening `---`.
    FenceNotFirst,
    /// The closing `---` is missing.
    FenceUnclosed,
    /// The file is not UTF-8.
    NotUtf8,
    /// The text is not valid YAML.
    Syntax,
    /// The text contains more than one YAML document.
    MultipleDocuments,
    /// The nesting exceeds `yaml::MAX_DEPTH`.
    TooDeep,
    /// The number of nodes exceeds `yaml::MAX_NODES`.
    TooManyNodes,
    /// The root is a list or a scalar, not a mapping.
    NotMapping,
    /// A mapping contains the same key twice.
    DuplicateKey,
    /// A mapping key is a list or a mapping.
    KeyNotString,
}

/// A problem found while parsing, with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Kind of the problem.
    pub kind: ProblemKind,
    /// Bytes of the file that the problem is about.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What to do, if that is known.
    pub help: Option<&'static str>,
    /// A second place with a note, such as the first of two duplicate keys.
    pub related: Option<(Span, String)>,
}

impl Problem {
    /// A problem without a related place.
    pub fn new(kind: ProblemKind, span: Span, message: impl Into<String>) -> Self {
        Problem {
            kind,
            span,
            message: message.into(),
            help: None,
            related: None,
        }
    }
    /// Adds what to do.
    pub fn help(mut self, help: &'static str) -> Self {
        self.help = Some(help);
        self
    }
    /// Adds a related place with a note.
    pub fn related(mut self, span: Span, message: impl Into<String>) -> Self {
        self.related = Some((span, message.into()));
        self
    }
    /// What is wrong and what to do, on one line.
    pub fn explained(&self) -> String {
        match self.help {
            Some(help) => format!("{}; {help}", self.message),
            None => self.message.clone(),
        }
    }
}

/// A parsed manifest. It is never changed after parsing.
#[derive(Debug)]
pub struct Document {
    /// Path of the file.
    pub path: PathBuf,
    /// Contents of the file.
    pub text: String,
    /// Manifest format, or `None` if neither the file name nor the keys identify it.
    pub doctype: Option<Doctype>,
    /// Spans of the frontmatter and the body, or `None` if the file has no frontmatter.
    pub frontmatter: Option<Frontmatter>,
    /// Root of the tree. It is always a mapping, and `None` if the frontmatter is not a readable
    /// mapping.
    pub root: Option<Node>,
    /// Problems found while parsing.
    pub problems: Vec<Problem>,
    /// Valid YAML that other parsers read differently.
    pub quirks: Vec<YamlQuirk>,
    lines: OnceLock<LineIndex>,
    node_paths: NodePaths,
    /// Bytes that were parsed again to check edits of this document.
    reparsed_bytes: AtomicUsize,
}

impl Document {
    /// Adds one more parse of the whole text to the counter, as checking an edit requires.
    /// Returns the number of bytes counted before.
    pub fn add_reparse(&self) -> usize {
        self.reparsed_bytes
            .fetch_add(self.text.len(), Ordering::Relaxed)
    }

    /// Parses a file with a frontmatter. Problems are recorded in the document.
    pub fn parse(path: impl Into<PathBuf>, text: String) -> Document {
        let path = path.into();
        let mut doc = Document {
            doctype: doctype_by_name(&path),
            path,
            text,
            frontmatter: None,
            root: None,
            problems: Vec::new(),
            quirks: Vec::new(),
            lines: OnceLock::new(),
            node_paths: NodePaths::default(),
            reparsed_bytes: AtomicUsize::new(0),
        };
        let frontmatter = match split(&doc.text) {
            Ok((frontmatter, problem)) => {
                doc.problems.extend(problem);
                frontmatter
            }
            Err(problem) => {
                doc.problems.push(problem);
                return doc;
            }
        };
        doc.frontmatter = Some(frontmatter);
        let source = doc.text.get(frontmatter.yaml.range()).unwrap_or("");
        let parsed = yaml::parse(source, frontmatter.yaml.start as usize);
        doc.problems.extend(parsed.problems);
        doc.quirks = parsed.quirks;
        match parsed.root {
            Some(root) if root.is_map() => doc.root = Some(root),
            Some(root) if root.is_null() => doc.problems.push(Problem::new(
                ProblemKind::Empty,
                frontmatter.open,
                "the frontmatter is empty",
            )),
            Some(root) => doc.problems.push(Problem::new(
                ProblemKind::NotMapping,
                root.span,
                format!(
                    "the frontmatter must be a mapping, found {}",
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

    /// Parses a file that is YAML only, without `---` fences.
    pub fn parse_yaml(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Document {
        let mut doc = Document::from_bytes(path, bytes);
        if doc.problems.iter().any(|p| p.kind == ProblemKind::NotUtf8) {
            return doc;
        }
        let parsed = yaml::parse_with_subject(&doc.text, 0, "the file");
        doc.frontmatter = None;
        doc.problems = parsed.problems;
        doc.quirks = parsed.quirks;
        doc.root = parsed.root;
        if let Some(other) = doc.root.take_if(|root| !root.is_map()) {
            let what = format!("the file must be a mapping, found {}", other.type_name());
            let problem = Problem::new(ProblemKind::NotMapping, other.span, what);
            doc.problems.push(problem);
        }
        doc
    }

    /// Parses bytes. If they are not UTF-8, the document contains only that problem.
    pub fn from_bytes(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Document {
        match String::from_utf8(bytes) {
            Ok(text) => Document::parse(path, text),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let mut bytes = error.into_bytes();
                let bad = bytes.get(at).copied().unwrap_or(0);
                bytes.truncate(at);
                // Keep the text before the invalid byte, so that the place can be shown.
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
                    frontmatter: None,
                    root: None,
                    quirks: Vec::new(),
                    lines: OnceLock::new(),
                    node_paths: NodePaths::default(),
                    reparsed_bytes: AtomicUsize::new(0),
                }
            }
        }
    }

    /// Directory of the file.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Text of a span.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// Text after the frontmatter.
    pub fn body(&self) -> &str {
        self.frontmatter
            .map_or("", |frontmatter| self.slice(frontmatter.body))
    }

    /// Line starts of the text, computed on first use.
    pub fn lines(&self) -> &LineIndex {
        self.lines.get_or_init(|| LineIndex::new(&self.text))
    }

    /// Line and column of a byte offset.
    pub fn position(&self, byte: u32) -> Position {
        self.lines().position(&self.text, byte)
    }

    /// JSON pointer of a node of this document. The node is found by its address.
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

    /// Path from the root to a node of this document, as the index of each child. The node is
    /// found by its address.
    pub fn path_of(&self, node: &Node) -> Option<Vec<usize>> {
        self.node_paths.path_to(self.root.as_ref()?, node)
    }

    /// The collection that contains a node of this document.
    pub fn parent_of(&self, node: &Node) -> Option<&Node> {
        let way = self.path_of(node)?;
        let (_, way) = way.split_last()?;
        way.iter()
            .try_fold(self.root.as_ref()?, |node, index| match &node.value {
                Value::Map(entries) => entries.get(*index).map(|e| &e.value),
                _ => node.items().get(*index),
            })
    }

    /// JSON pointer of an entry's value. The value is found by its address.
    pub fn pointer_of_entry(&self, entry: &Entry) -> Option<String> {
        self.pointer_of(&entry.value)
    }

    /// The node at a JSON pointer.
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
