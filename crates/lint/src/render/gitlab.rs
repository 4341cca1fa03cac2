//! GitLab Code Quality report: a JSON array of issues.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::render::fingerprint::fingerprints;
use crate::render::{Meta, citation, message};
use crate::{Finding, Level, Report, Severity};
use agentproto_text as text;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let issues: Vec<Value> = report
        .findings
        .iter()
        .zip(fingerprints(report, meta))
        .filter(|(finding, _)| finding.counts())
        .map(|(finding, fingerprint)| {
            let begin = finding.start.line.max(1);
            json!({
                "description": format!("{} [{}]", message(finding), citation(finding.source, finding.rule.level)),
                "check_name": finding.rule.slug,
                "fingerprint": fingerprint,
                "severity": severity(finding, report),
                "location": {
                    "path": meta.path(&finding.file),
                    "lines": { "begin": begin, "end": finding.end.line.max(begin) },
                },
            })
        })
        .collect();
    writeln!(out, "{}", text::pretty(&Value::Array(issues))?)
}

fn severity(finding: &Finding, report: &Report) -> &'static str {
    match finding.severity {
        Severity::Error if report.source(&finding.file).is_none() => "blocker",
        Severity::Error if finding.rule.level == Level::Must => "critical",
        Severity::Error => "major",
        Severity::Warning => "minor",
        Severity::Info => "info",
    }
}
