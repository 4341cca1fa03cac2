//! YAML → spanned tree. The only module that knows which parser is used.
//!
//! Two readers give the same tree: `library` (saphyr-parser) reads all of YAML and words
//! every error; `quick` reads the plain style in which nearly all manifests are written,
//! several times faster, and gives up at the first sign of anything else. A property test
//! holds the two to the same result.

mod keys;
mod library;
mod quick;
mod scalar;

pub use scalar::{differs_in_yaml11, resolve as resolve_plain};

use crate::document::Problem;
use crate::tree::{Node, Span};

/// Deeper nesting is refused: no manifest needs it, and recursion must end.
pub const MAX_DEPTH: usize = 128;
/// More nodes (aliases expanded) are refused: a small file must not become a large tree.
pub const MAX_NODES: usize = 200_000;

/// YAML that is legal but that other readers see differently, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OddityKind {
    Anchor,
    Alias,
    MergeKey,
    Tag,
    /// A plain scalar with another type in YAML 1.1 (`no`, `0777`, `1_000`, `12:30:00`).
    Yaml11,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oddity {
    pub kind: OddityKind,
    pub span: Span,
}

#[derive(Debug, Default, PartialEq)]
pub struct Parsed {
    pub root: Option<Node>,
    pub problems: Vec<Problem>,
    pub oddities: Vec<Oddity>,
}

/// What problems call the YAML of a manifest.
const FRONTMATTER: &str = "the frontmatter";

/// Parses one YAML document; `base` is its offset in the file.
pub fn parse(source: &str, base: usize) -> Parsed {
    parse_called(source, base, FRONTMATTER)
}

/// The same for another text, which problems call `subject`.
pub(crate) fn parse_called(source: &str, base: usize, subject: &'static str) -> Parsed {
    match quick::parse(source, base) {
        Some(parsed) => parsed,
        None => library::parse(source, base, subject),
    }
}

/// The full parser alone, for tests that compare the two.
#[doc(hidden)]
pub fn parse_with_library(source: &str, base: usize) -> Parsed {
    library::parse(source, base, FRONTMATTER)
}

/// The quick reader alone; `None` where it leaves the text to the library.
#[doc(hidden)]
pub fn parse_quick(source: &str, base: usize) -> Option<Parsed> {
    quick::parse(source, base)
}
