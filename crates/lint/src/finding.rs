//! A finding: one mistake, at one place, with all that a reader needs to mend it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::rule::{Rule, Severity, Source};
use agentproto_manifest::{Doctype, Document, Position, Span};

/// A second place that explains the first, possibly in another file.
#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    pub file: PathBuf,
    pub span: Span,
    pub start: Position,
    pub end: Position,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Safety {
    Safe,
    Unsafe,
}

impl Safety {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Replace the bytes of `span` by `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub span: Span,
    pub text: String,
}

/// Edits of the finding's own file; they apply together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    pub safety: Safety,
    /// "Replace `macos` by `darwin`".
    pub title: String,
    pub edits: Vec<Edit>,
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub rule: &'static Rule,
    /// The statement behind it: that of the rule, or of the spec whose schema is broken.
    pub source: Source,
    pub severity: Severity,
    pub message: String,
    pub help: Option<String>,
    pub file: PathBuf,
    pub span: Span,
    pub start: Position,
    pub end: Position,
    /// JSON pointer into the frontmatter; empty for the document as a whole.
    pub pointer: String,
    pub related: Vec<Related>,
    pub fix: Option<Fix>,
    /// Reason given by the inline ignore or `baseline` when the finding does not count.
    pub suppressed: Option<String>,
}

/// Rules for whatever breaks a schema and has no rule of its own, in any doctype.
const ANY_SCHEMA: [&str; 5] = [
    "fm-type",
    "fm-enum",
    "fm-range",
    "fm-required-missing",
    "fm-unknown-field",
];

/// Where the statement stands that `rule` holds a document against.
pub fn source_for(rule: &Rule, doc: &Document) -> Source {
    match doc.doctype {
        Some(doctype) if ANY_SCHEMA.contains(&rule.slug) && doctype != Doctype::AgentCli => {
            Source {
                spec: doctype.spec(),
                section: "Schema",
            }
        }
        _ => rule.source,
    }
}

impl Finding {
    /// Reading order: file, place, rule.
    pub fn order(&self, other: &Self) -> std::cmp::Ordering {
        (&self.file, self.span, self.rule.slug).cmp(&(&other.file, other.span, other.rule.slug))
    }
    pub fn counts(&self) -> bool {
        self.suppressed.is_none()
    }
}

/// All that one run found, ready for a renderer.
#[derive(Debug, Default)]
pub struct Report {
    /// In reading order; suppressed ones included.
    pub findings: Vec<Finding>,
    /// Files that were linted, by the path they were found under.
    pub files: Vec<PathBuf>,
    /// Text of each file that has findings or related places, for renderers that quote it.
    pub sources: Vec<(PathBuf, Arc<Document>)>,
}

impl Report {
    pub fn source(&self, file: &Path) -> Option<&Arc<Document>> {
        self.sources
            .binary_search_by(|(path, _)| path.as_path().cmp(file))
            .ok()
            .map(|i| &self.sources[i].1)
    }
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|f| f.counts() && f.severity == severity)
            .count()
    }
}
