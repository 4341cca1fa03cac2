//! Parses YAML into a spanned tree. No other module knows which parser is used.
//!
//! Two readers produce the same tree. `library` (saphyr-parser) reads all of YAML and reports
//! every error. `quick` reads only the plain style of nearly all manifests, several times faster,
//! and returns `None` for anything else. A property test checks that both agree.

mod cause;
mod keys;
mod library;
mod quick;
mod scalar;

pub use scalar::{differs_in_yaml11, resolve as resolve_plain};

use crate::document::Problem;
use crate::tree::{Node, Span};

/// Maximum nesting depth. No manifest needs more, and the limit bounds recursion.
pub const MAX_DEPTH: usize = 128;
/// Maximum number of nodes after alias expansion, so that a small file cannot become a huge tree.
pub const MAX_NODES: usize = 200_000;

/// Kind of a valid YAML feature that other parsers read differently or do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YamlQuirkKind {
    /// An anchor (`&name`).
    Anchor,
    /// An alias (`*name`).
    Alias,
    /// A merge key (`<<`).
    MergeKey,
    /// A tag outside the core schema (`!name`).
    Tag,
    /// A plain scalar with another type in YAML 1.1 (`no`, `0777`, `1_000`, `12:30:00`).
    Yaml11,
}

/// A valid YAML feature that other parsers read differently, with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YamlQuirk {
    /// The feature.
    pub kind: YamlQuirkKind,
    /// Byte range in the file.
    pub span: Span,
}

/// Result of parsing one YAML document.
#[derive(Debug, Default, PartialEq)]
pub struct Parsed {
    /// The tree, or `None` after a syntax error or an exceeded limit.
    pub root: Option<Node>,
    /// Errors.
    pub problems: Vec<Problem>,
    /// Features that other parsers read differently.
    pub quirks: Vec<YamlQuirk>,
}

/// Subject of the error messages about a manifest.
const FRONTMATTER: &str = "the frontmatter";

/// Parses one YAML document that starts at offset `base` of the file.
pub fn parse(source: &str, base: usize) -> Parsed {
    parse_with_subject(source, base, FRONTMATTER)
}

/// Like `parse`, with another subject for the error messages.
pub fn parse_with_subject(source: &str, base: usize, subject: &'static str) -> Parsed {
    match quick::parse(source, base) {
        Some(parsed) => parsed,
        None => library::parse(source, base, subject),
    }
}

/// Parses with the library only, for tests that compare the two readers.
#[doc(hidden)]
pub fn parse_with_library(source: &str, base: usize) -> Parsed {
    library::parse(source, base, FRONTMATTER)
}

/// Parses with the quick reader only. `None` if the text needs the library.
#[doc(hidden)]
pub fn parse_quick(source: &str, base: usize) -> Option<Parsed> {
    quick::parse(source, base)
}
