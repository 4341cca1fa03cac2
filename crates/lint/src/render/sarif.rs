//! SARIF 2.1.0, for code scanning.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::render::fingerprint::fingerprints;
use crate::render::{Meta, citation, docs, message};
use crate::{Finding, Fix, Report, Rule, Severity};
use agentproto_manifest::{Document, Position, Span};
use agentproto_report::TOOL;
use agentproto_report::sarif::percent_encode;
use agentproto_text as text;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let (rules, index) = rules_that_occur(report);
    let results: Vec<Value> = report
        .findings
        .iter()
        .zip(fingerprints(report, meta))
        .map(|(finding, print)| {
            let rule = index.get(finding.rule.slug).copied().unwrap_or(0);
            result(finding, rule, &print, report, meta)
        })
        .collect();
    let rules: Vec<Value> = rules.into_iter().map(|r| descriptor(r, meta)).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": TOOL,
                "version": meta.version,
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "invocations": [{ "executionSuccessful": ran_to_the_end(report, meta) }],
            "properties": { "profile": meta.profile.as_str() },
            "results": results,
        }],
    });
    writeln!(out, "{}", text::pretty(&log)?)
}

/// Whether the results are all there are; findings are no failure of the run.
fn ran_to_the_end(report: &Report, meta: &Meta) -> bool {
    let fault = |f: &Finding| f.rule.slug == "internal-fault";
    !meta.interrupted && !report.findings.iter().any(fault)
}

/// Rules in the order of their first finding, and where each stands.
fn rules_that_occur(report: &Report) -> (Vec<&'static Rule>, HashMap<&'static str, usize>) {
    let mut rules = Vec::new();
    let mut index = HashMap::new();
    for finding in &report.findings {
        index.entry(finding.rule.slug).or_insert_with(|| {
            rules.push(finding.rule);
            rules.len() - 1
        });
    }
    (rules, index)
}

fn descriptor(rule: &Rule, meta: &Meta) -> Value {
    let severity = rule.severity_in(meta.profile).unwrap_or(rule.severity);
    let full = if rule.what().is_empty() {
        rule.title
    } else {
        rule.what()
    };
    json!({
        "id": rule.slug,
        "name": pascal_case(rule.slug),
        "shortDescription": { "text": rule.title },
        "fullDescription": { "text": full },
        "help": { "text": help_text(rule), "markdown": docs::sections(rule, 2) },
        "defaultConfiguration": { "level": level(severity) },
        "properties": {
            "tags": [rule.source.spec, rule.level.as_str(), rule.scope.as_str()],
            "precision": "very-high",
            "problem.severity": problem_severity(severity),
        },
    })
}

fn help_text(rule: &Rule) -> String {
    [
        rule.what(),
        rule.why(),
        &format!("Source: {}.", citation(rule.source, rule.level)),
    ]
    .into_iter()
    .filter(|part| !part.is_empty())
    .collect::<Vec<_>>()
    .join(" ")
}

/// `setup-order` → `SetupOrder`, the form that viewers expect of a name.
fn pascal_case(slug: &str) -> String {
    slug.split('-')
        .flat_map(|word| {
            let mut chars = word.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(chars)
        })
        .collect()
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

/// GitHub's word for the same.
fn problem_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "recommendation",
    }
}

fn result(finding: &Finding, rule: usize, print: &str, report: &Report, meta: &Meta) -> Value {
    let mut text = message(finding).to_owned();
    if let Some(help) = &finding.help {
        text.push('\n');
        text.push_str(help);
    }
    let mut location = object(physical(
        &finding.file,
        region(finding.start, finding.end),
        meta,
    ));
    if !finding.pointer.is_empty() {
        location.insert(
            "logicalLocations".to_owned(),
            json!([{ "fullyQualifiedName": finding.pointer }]),
        );
    }
    let mut result = object(json!({
        "ruleId": finding.rule.slug,
        "ruleIndex": rule,
        "level": level(finding.severity),
        "message": { "text": text },
        "locations": [location],
        "partialFingerprints": { "agentprotoFinding/v1": print },
    }));
    let mut put = |key: &str, value: Vec<Value>| {
        if !value.is_empty() {
            result.insert(key.to_owned(), Value::Array(value));
        }
    };
    put("relatedLocations", related(finding, meta));
    let source = report.source(&finding.file);
    if let (Some(found), Some(doc)) = (&finding.fix, source) {
        put("fixes", vec![fix(found, finding, doc, meta)]);
    }
    if let Some(reason) = &finding.suppressed {
        let kind = if reason == "baseline" {
            "external"
        } else {
            "inSource"
        };
        put(
            "suppressions",
            vec![json!({ "kind": kind, "justification": reason })],
        );
    }
    Value::Object(result)
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

fn object(value: Value) -> Map<String, Value> {
    agentproto_report::aoi::object(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_percent_encoded() {
        assert_eq!(percent_encode("a b/ü#1%.md"), "a%20b/%C3%BC%231%25.md");
    }

    #[test]
    fn names_are_pascal_case() {
        assert_eq!(pascal_case("fm-required-missing"), "FmRequiredMissing");
    }
}
