//! The report as one JSON document. Its schema is schemas/lint-report.schema.json.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::render::{Meta, message};
use crate::{Finding, Fix, Level, Related, Report, Source};
use agentproto_manifest::Position;
use agentproto_report::TOOL;
use agentproto_text as text;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let tally = meta.counts(report);
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|f| Value::Object(finding(f, meta)))
        .collect();
    let mut document = json!({
        "schema": "agentproto.lint/v1",
        "tool": { "name": TOOL, "version": meta.version },
        "profile": meta.profile.as_str(),
        "findings": findings,
        "summary": {
            "files": report.files.len(),
            "errors": tally.errors,
            "warnings": tally.warnings,
            "infos": tally.infos,
            "suppressed": tally.suppressed,
            "fixable": tally.safe_fixes,
            "fixable_unsafe": tally.unsafe_fixes,
        },
    });
    if let Some(page) = &meta.page {
        document["truncated"] = page.next.is_some().into();
        document["next_cursor"] = page.next.clone().into();
    }
    writeln!(out, "{}", text::pretty(&document)?)
}

/// The fields of one finding, shared with `jsonl`.
pub(super) fn finding(finding: &Finding, meta: &Meta) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    put("rule", finding.rule.slug.into());
    put("severity", finding.severity.as_str().into());
    put("message", message(finding).into());
    if let Some(help) = &finding.help {
        put("help", help.as_str().into());
    }
    put("file", meta.path(&finding.file).into());
    put("start", position(finding.start));
    put("end", position(finding.end));
    put("pointer", finding.pointer.as_str().into());
    put("source", source(finding.source, finding.rule.level));
    put("fix", finding.fix.as_ref().map_or(Value::Null, fix));
    if !finding.related.is_empty() {
        let related = finding.related.iter().map(|r| related(r, meta)).collect();
        put("related", Value::Array(related));
    }
    if let Some(reason) = &finding.suppressed {
        put("suppressed", reason.as_str().into());
    }
    fields
}

fn position(at: Position) -> Value {
    // Lines and columns start at 1, even if the file could not be read.
    json!({ "line": at.line.max(1), "column": at.column.max(1), "byte": at.byte })
}

/// The spec section of a rule, and its level.
pub(super) fn source(source: Source, level: Level) -> Value {
    let spec = match source.spec {
        "" => TOOL,
        spec => spec,
    };
    json!({ "spec": spec, "section": source.section, "level": level.as_str() })
}

fn fix(fix: &Fix) -> Value {
    let edits: Vec<Value> = fix
        .edits
        .iter()
        .map(|e| json!({ "start": e.span.start, "end": e.span.end, "text": e.text }))
        .collect();
    json!({ "safety": fix.safety.as_str(), "title": fix.title, "edits": edits })
}

fn related(related: &Related, meta: &Meta) -> Value {
    let message = match related.message.as_str() {
        "" => "see here",
        message => message,
    };
    json!({
        "file": meta.path(&related.file),
        "start": position(related.start),
        "end": position(related.end),
        "message": message,
    })
}
