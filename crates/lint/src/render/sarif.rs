//! SARIF 2.1.0 for code scanning. Suppressed findings are included and marked as suppressed.

use std::path::Path;

use serde_json::{Value, json};

use super::fingerprint::fingerprints;
use super::{Meta, RenderedReport, citation, docs, message};
use crate::{Finding, Fix, Rule, Severity};
use agentproto_manifest::{Document, Position, Span};
use agentproto_report::aoi::object;
use agentproto_report::sarif::{
    self, OptionalMembers, SarifConfiguration, SarifLevel, SarifReport, SarifText, percent_encode,
};

impl SarifReport for RenderedReport<'_> {
    const FINGERPRINT: &'static str = "agentprotoFinding/v1";
    const ERRORS_ARE_NOTIFICATIONS: bool = false;

    fn is_complete(&self) -> bool {
        let internal_error = |f: &Finding| f.rule.slug == "internal-fault";
        !self.meta.interrupted && !self.report.findings.iter().any(internal_error)
    }

    fn properties(&self) -> Value {
        json!({ "profile": self.meta.profile.as_str() })
    }

    fn rule(&self, finding: &Finding) -> sarif::SarifRule {
        let rule = finding.rule;
        let severity = rule.severity_in(self.meta.profile).unwrap_or(rule.severity);
        let full = match rule.what_it_checks() {
            "" => rule.title,
            what => what,
        };
        sarif::SarifRule {
            id: rule.slug.to_owned(),
            name: Some(pascal_case(rule.slug)),
            short_description: rule.title.into(),
            full_description: Some(full.into()),
            help: Some(SarifText {
                text: help_text(rule),
                markdown: Some(docs::sections(rule, 2)),
            }),
            default_configuration: Some(SarifConfiguration {
                level: level(severity),
            }),
            properties: Some(json!({
                "tags": [rule.source.spec, rule.level.as_str(), rule.scope.as_str()],
                "precision": "very-high",
                "problem.severity": problem_severity(severity),
            })),
        }
    }

    fn level(&self, finding: &Finding) -> SarifLevel {
        level(finding.severity)
    }

    fn text(&self, finding: &Finding) -> String {
        let mut text = message(finding).to_owned();
        if let Some(help) = &finding.help {
            text.push('\n');
            text.push_str(help);
        }
        text
    }

    fn location(&self, finding: &Finding) -> Value {
        let region = region(finding.start, finding.end);
        let mut location = physical(&finding.file, region, self.meta);
        if !finding.pointer.is_empty()
            && let Some(location) = location.as_object_mut()
        {
            let pointer = json!([{ "fullyQualifiedName": finding.pointer }]);
            location.insert("logicalLocations".to_owned(), pointer);
        }
        location
    }

    fn fingerprints(&self) -> Vec<String> {
        fingerprints(self.report, self.meta)
    }

    fn optional_members(&self, finding: &Finding) -> OptionalMembers {
        let source = self.report.source(&finding.file);
        let fixes = finding.fix.iter().zip(source);
        let fixes = fixes.map(|(found, doc)| fix(found, finding, doc, self.meta));
        OptionalMembers {
            properties: None,
            related_locations: related(finding, self.meta),
            fixes: fixes.collect(),
        }
    }
}

fn help_text(rule: &Rule) -> String {
    [
        rule.what_it_checks(),
        rule.why(),
        &format!("Source: {}.", citation(rule.source, rule.level)),
    ]
    .into_iter()
    .filter(|part| !part.is_empty())
    .collect::<Vec<_>>()
    .join(" ")
}

/// `setup-order` → `SetupOrder`, the form that SARIF viewers expect.
fn pascal_case(slug: &str) -> String {
    slug.split('-')
        .flat_map(|word| {
            let mut chars = word.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(chars)
        })
        .collect()
}

fn level(severity: Severity) -> SarifLevel {
    match severity {
        Severity::Error => SarifLevel::Error,
        Severity::Warning => SarifLevel::Warning,
        Severity::Info => SarifLevel::Note,
    }
}

/// The severity in GitHub's terms (`problem.severity`).
fn problem_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "recommendation",
    }
}

fn related(finding: &Finding, meta: &Meta) -> Vec<Value> {
    let places = finding.related.iter().enumerate();
    places
        .map(|(i, place)| {
            let region = region(place.start, place.end);
            let mut location = object(physical(&place.file, region, meta));
            location.insert("id".to_owned(), (i + 1).into());
            location.insert("message".to_owned(), json!({ "text": place.message }));
            Value::Object(location)
        })
        .collect()
}

fn fix(fix: &Fix, finding: &Finding, doc: &Document, meta: &Meta) -> Value {
    let at = |span: Span| region(doc.position(span.start), doc.position(span.end));
    let replacements: Vec<Value> = fix
        .edits
        .iter()
        .map(|e| json!({ "deletedRegion": at(e.span), "insertedContent": { "text": e.text } }))
        .collect();
    json!({
        "description": { "text": format!("{} ({})", fix.title, fix.safety.as_str()) },
        "artifactChanges": [{
            "artifactLocation": artifact(&finding.file, meta),
            "replacements": replacements,
        }],
    })
}

fn physical(file: &Path, region: Value, meta: &Meta) -> Value {
    json!({ "physicalLocation": { "artifactLocation": artifact(file, meta), "region": region } })
}

fn artifact(file: &Path, meta: &Meta) -> Value {
    let path = meta.path(file);
    if path.starts_with('/') {
        return json!({ "uri": format!("file://{}", percent_encode(&path)) });
    }
    json!({ "uri": percent_encode(&path), "uriBaseId": "%SRCROOT%" })
}

fn region(start: Position, end: Position) -> Value {
    let (line, column) = (start.line.max(1), start.column.max(1));
    let end = end.max(start);
    json!({
        "startLine": line,
        "startColumn": column,
        "endLine": end.line.max(line),
        "endColumn": end.column.max(1),
        "byteOffset": start.byte,
        "byteLength": end.byte.saturating_sub(start.byte),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_pascal_case() {
        assert_eq!(pascal_case("fm-required-missing"), "FmRequiredMissing");
    }
}
