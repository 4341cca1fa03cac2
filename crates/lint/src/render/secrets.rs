//! A finding about a secret in plain text must not carry the secret any further.

use std::collections::HashMap;
use std::path::Path;

use crate::{Finding, Report};
use agentproto_manifest::{Doctype, Document, Span};

/// Endings of rules that point at a literal secret.
const RULES: [&str; 4] = [
    "inline-secret",
    "env-set-secret",
    "plaintext-credential",
    "plaintext-secret",
];
/// Fields of a SECRETS.md that hold what must not stand there.
const FIELDS: [&str; 6] = [
    "value",
    "values",
    "secret",
    "token",
    "password",
    "plaintext",
];

/// Places that are never quoted, by file.
pub struct Masks<'r> {
    spans: HashMap<&'r Path, Vec<Span>>,
}

impl<'r> Masks<'r> {
    pub fn of(report: &'r Report) -> Self {
        let mut spans: HashMap<&Path, Vec<Span>> = HashMap::new();
        for finding in &report.findings {
            let span = report
                .source(&finding.file)
                .and_then(|doc| secret(finding, doc));
            if let Some(span) = span {
                spans.entry(&finding.file).or_default().push(span);
            }
        }
        Masks { spans }
    }

    pub fn in_file(&self, file: &Path) -> &[Span] {
        self.spans.get(file).map_or(&[], Vec::as_slice)
    }
}

fn secret(finding: &Finding, doc: &Document) -> Option<Span> {
    let by_rule = RULES.iter().any(|end| finding.rule.slug.ends_with(end));
    let field = finding.pointer.rsplit('/').next().unwrap_or("");
    let by_field = doc.doctype == Some(Doctype::Secrets) && FIELDS.contains(&field);
    if !by_rule && !by_field {
        return None;
    }
    let value = doc.at_pointer(&finding.pointer)?.span;
    // A mark on the key is about the whole value; a mark inside it, about that part.
    Some(if value.contains(finding.span) {
        finding.span
    } else {
        value
    })
}

/// Whether a byte of the file is masked.
pub fn hides(masks: &[Span], byte: usize) -> bool {
    masks.iter().any(|mask| mask.range().contains(&byte))
}

/// Whether a piece of the file has anything masked in it.
pub fn touches(masks: &[Span], span: Span) -> bool {
    masks
        .iter()
        .any(|mask| mask.start < span.end && span.start < mask.end)
}
