//! Masks plain-text secrets, so that a report about a secret does not repeat it.

use std::collections::HashMap;
use std::path::Path;

use crate::{Finding, Report};
use agentproto_manifest::{Doctype, Document, Span};

/// Suffixes of the slugs of rules that point at a plain-text secret.
const RULES: [&str; 4] = [
    "inline-secret",
    "env-set-secret",
    "plaintext-credential",
    "plaintext-secret",
];
/// Fields of a SECRETS.md whose values are masked: they hold secrets, which is not allowed.
const FIELDS: [&str; 6] = [
    "value",
    "values",
    "secret",
    "token",
    "password",
    "plaintext",
];

/// The places that are never quoted, by file.
pub struct MaskedSpans<'r> {
    spans: HashMap<&'r Path, Vec<Span>>,
}

impl<'r> MaskedSpans<'r> {
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
        MaskedSpans { spans }
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
    // If the finding points at a part of the value, mask that part. Otherwise mask the whole value.
    Some(if value.contains(finding.span) {
        finding.span
    } else {
        value
    })
}

/// Whether a byte of the file is masked.
pub fn is_masked(masks: &[Span], byte: usize) -> bool {
    masks.iter().any(|mask| mask.range().contains(&byte))
}

/// Whether a span overlaps a masked place.
pub fn overlaps_mask(masks: &[Span], span: Span) -> bool {
    masks
        .iter()
        .any(|mask| mask.start < span.end && span.start < mask.end)
}
