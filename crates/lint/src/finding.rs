//! Findings: each is one mistake at one place, with everything a reader needs to fix it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::rule::{Rule, Severity, Source};
use agentproto_manifest::{Doctype, Document, Position, Span};

/// Another place that explains a finding, possibly in another file.
#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    /// The file of the place.
    pub file: PathBuf,
    /// Byte range in the file.
    pub span: Span,
    /// Line and column of the start of `span`.
    pub start: Position,
    /// Line and column of the end of `span`.
    pub end: Position,
    /// What the place has to do with the finding.
    pub message: String,
}

/// Whether a fix may change the meaning of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Safety {
    /// It does not; `--fix` applies it.
    Safe,
    /// It may; only `--unsafe-fixes` applies it.
    Unsafe,
}

impl Safety {
    /// `safe` or `unsafe`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Replaces the bytes of `span` with `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Byte range that is replaced. If empty, `text` is inserted there.
    pub span: Span,
    /// The new text. If empty, `span` is deleted.
    pub text: String,
}

/// Edits of the finding's file. They are applied together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// Whether the fix may change the meaning of the manifest.
    pub safety: Safety,
    /// What the fix does, for example "Replace `macos` with `darwin`".
    pub title: String,
    /// The edits.
    pub edits: Vec<Edit>,
}

/// One violation of a rule.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The violated rule.
    pub rule: &'static Rule,
    /// The spec section it comes from: that of the rule, or of the spec whose schema is violated.
    pub source: Source,
    /// Severity in this run.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The file with the violation.
    pub file: PathBuf,
    /// Byte range in the file.
    pub span: Span,
    /// Line and column of the start of `span`.
    pub start: Position,
    /// Line and column of the end of `span`.
    pub end: Position,
    /// JSON pointer into the frontmatter. Empty if the finding is about the whole document.
    pub pointer: String,
    /// Other places that explain the finding.
    pub related: Vec<Related>,
    /// Edits that remove the violation.
    pub fix: Option<Fix>,
    /// Why the finding does not count: the reason of an inline ignore, or `baseline`. `None` if it
    /// counts.
    pub suppressed: Option<String>,
}

/// The rules for schema violations that have no specific rule, in any doctype.
const ANY_SCHEMA: [&str; 5] = [
    "fm-type",
    "fm-enum",
    "fm-range",
    "fm-required-missing",
    "fm-unknown-field",
];

/// Rules about the frontmatter and about fields that every spec defines in its own schema. AIP-29
/// also defines them for AGENT-CLI.md.
const SHARED_FIELDS: [&str; 12] = [
    "fm-missing",
    "fm-delimiters",
    "fm-yaml-syntax",
    "fm-not-mapping",
    "fm-field-case",
    "id-pattern",
    "name-length",
    "description-length",
    "version-semver",
    "version-loose-pattern",
    "tag-pattern",
    "tags-unique",
];

/// Rules about references, which several specs define.
const REFERENCES: [&str; 4] = [
    "ref-absolute-path",
    "ref-missing-file",
    "ref-target-not-manifest",
    "ref-target-wrong-doctype",
];

/// Whether findings of a rule cite the spec of their file instead of the rule's own source.
pub fn cites_spec_of_file(rule: &Rule) -> bool {
    ANY_SCHEMA.contains(&rule.slug)
        || SHARED_FIELDS.contains(&rule.slug)
        || REFERENCES.contains(&rule.slug)
        || rule.slug == "name-kebab-equals-dir"
}

/// The spec section that a finding of `rule` in this document comes from.
pub fn source_for(rule: &Rule, doc: &Document) -> Source {
    let Some(doctype) = doc.doctype.filter(|_| cites_spec_of_file(rule)) else {
        return rule.source;
    };
    let schema = Source {
        spec: doctype.spec(),
        section: "Schema",
    };
    let is_reference = REFERENCES.contains(&rule.slug);
    match doctype {
        Doctype::AgentCli => rule.source,
        _ if ANY_SCHEMA.contains(&rule.slug) => schema,
        Doctype::Cli if is_reference => Source {
            section: "Optional fields",
            ..schema
        },
        // AIP-29 defines the reference of a tool to its CLI.md.
        Doctype::Tool if is_reference => Source {
            spec: "AIP-29",
            section: "Args template",
        },
        Doctype::Cli => rule.source,
        Doctype::Acp => Source {
            section: "ACP.md frontmatter",
            ..schema
        },
        Doctype::Secrets => Source {
            section: "Frontmatter",
            ..schema
        },
        Doctype::Operator if is_reference => Source {
            section: "Runtime binding",
            ..schema
        },
        _ => schema,
    }
}

impl Finding {
    /// Report order: by file, then by place, then by rule.
    pub fn order(&self, other: &Self) -> std::cmp::Ordering {
        (&self.file, self.span, self.rule.slug).cmp(&(&other.file, other.span, other.rule.slug))
    }
    /// Whether the finding is not suppressed.
    pub fn counts(&self) -> bool {
        self.suppressed.is_none()
    }
}

/// The result of a run, ready to be rendered.
#[derive(Debug, Default)]
pub struct Report {
    /// All findings in report order, including suppressed ones.
    pub findings: Vec<Finding>,
    /// The files that were linted, by the path under which they were found.
    pub files: Vec<PathBuf>,
    /// The files with findings or related places, sorted by path. Renderers quote their text.
    pub sources: Vec<(PathBuf, Arc<Document>)>,
}

impl Report {
    /// The document of a file. `None` if it has no findings or could not be read.
    pub fn source(&self, file: &Path) -> Option<&Arc<Document>> {
        self.sources
            .binary_search_by(|(path, _)| path.as_path().cmp(file))
            .ok()
            .map(|i| &self.sources[i].1)
    }
    /// Number of findings of a severity that are not suppressed.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|f| f.counts() && f.severity == severity)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn a_finding_cites_the_spec_of_its_file() {
        for (slug, file, expected) in [
            // Schema violations: the schema of the file's format.
            ("fm-type", "ACP.md", "AIP-44 §Schema"),
            ("fm-type", "CLI.md", "AIP-29 §Schema"),
            ("fm-unknown-field", "SANDBOX.md", "AIP-36 §Schema"),
            // Fields that every format has.
            ("id-pattern", "CLI.md", "AIP-29 §Required fields"),
            ("id-pattern", "ACP.md", "AIP-44 §ACP.md frontmatter"),
            ("tags-unique", "SECRETS.md", "AIP-19 §Frontmatter"),
            ("tags-unique", "TOOL.md", "AIP-14 §Schema"),
            // References.
            ("ref-missing-file", "CLI.md", "AIP-29 §Optional fields"),
            ("ref-missing-file", "TOOL.md", "AIP-29 §Args template"),
            ("ref-missing-file", "OPERATOR.md", "AIP-9 §Runtime binding"),
            // A rule of one format always cites its own source.
            ("caps-superset-of-acp", "CLI.md", "AIP-45 §Capabilities"),
            ("sec-slug-pattern", "SECRETS.md", "AIP-19 §Slug naming"),
        ] {
            let doc = Document::parse(file, "---\nid: x\n---\n".to_owned());
            let rule = registry::find(slug).expect(slug);
            let source = source_for(rule, &doc);
            let found = format!("{} §{}", source.spec, source.section);
            assert_eq!(found, expected, "{slug} in {file}");
        }
        // Without a known format, the rule's own source is all there is.
        let doc = Document::parse("notes.md", "---\n---\n".to_owned());
        let rule = registry::find("fm-type").expect("a rule");
        assert_eq!(source_for(rule, &doc).spec, rule.source.spec);
        // The rules' sources are for AGENT-CLI.md.
        let doc = Document::parse("AGENT-CLI.md", "---\nid: x\n---\n".to_owned());
        for rule in registry::rules() {
            assert_eq!(source_for(rule, &doc), rule.source, "{}", rule.slug);
        }
    }
}
