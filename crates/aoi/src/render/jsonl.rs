//! AOI machine mode: one `aoi:check` per rule and command, and one `pair` per cell of the matrix.
//! It is a superset of the output of the reference `aoi-lint`. `verdict` is more precise than `ok`.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::json;

use super::{RenderOptions, wording};
use crate::model::{Assertion, Characteristic, Finding, Report, Verdict};
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::EventType;
use agentproto_report::row;

/// Writes the first line of a stream whose findings follow one by one.
pub fn begin(out: &mut dyn Write) -> io::Result<()> {
    Emitter::new(out, env!("CARGO_PKG_VERSION")).meta("aoi-lint")
}

/// Writes one finding of such a stream.
pub fn finding(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.event(EventType::Check, &of_finding(finding)?)
}

/// Writes the stream, or the rest of it.
pub fn render(report: &Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let assertions = report
        .compat
        .iter()
        .map(|assertion| Ok(of_assertion(assertion)));
    let mut written = options.written.clone().unwrap_or_default();
    let number_written = written.len();
    let is_new = |finding: &&Finding| match written.iter().position(|known| known == *finding) {
        Some(at) => {
            written.swap_remove(at);
            false
        }
        None => true,
    };
    let rest: Vec<&Finding> = report.checks.iter().filter(is_new).collect();
    let failed = |verdict| matches!(verdict, Verdict::Fail | Verdict::Error);
    let failures = report.checks.iter().filter(|f| failed(f.verdict)).count();
    let bad = failures + report.compat.iter().filter(|a| !a.ok).count();
    let checks = assertions.chain(rest.into_iter().map(of_finding));
    let checks: Vec<Fields> = checks.collect::<io::Result<_>>()?;
    let rows = wording::rows(report).into_iter();
    let pairs = rows.flat_map(|(command, cells)| {
        let cells = Characteristic::ALL.into_iter().zip(cells);
        cells.map(move |(characteristic, pair)| {
            object(json!({
                "command": command,
                "characteristic": characteristic.as_str(),
                "verdict": pair,
            }))
        })
    });
    let checks = checks.into_iter().map(|check| (EventType::Check, check));
    let events = checks.chain(pairs.map(|pair| (EventType::Pair, pair)));
    let events: Vec<(EventType, Fields)> = events.collect();
    let summary = &report.summary;
    let mut fields = object(json!({
        "count": number_written + events.len(),
        "error_count": bad,
        "partial": report.partial,
        "target": report.target.name,
        "pairs_proven": summary.pairs_proven,
        "pairs_failing": summary.pairs_failing,
        "pairs_unproven": summary.pairs_unproven,
        "counts": row::counts(summary)?,
        "known_count": report.checks.iter().filter(|f| f.known).count(),
        "timing": report.timing,
    }));
    if report.partial {
        fields.insert("reason".to_owned(), "interrupted".into());
    }
    if !options.fixed.is_empty() {
        let fixed = options.fixed.iter();
        let fixed = fixed.map(|f| json!({ "rule": f.id, "command": f.subject }));
        fields.insert("fixed".to_owned(), fixed.collect());
    }
    let ok = options.ok && !report.partial;
    let end = (ok, Duration::from_millis(report.timing.wall_ms), fields);
    let events = events.into_iter().map(Ok);
    let emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    match options.written {
        Some(_) => emitter.events(events, end),
        None => emitter.stream("aoi-lint", events, end),
    }
}

fn of_assertion(assertion: &Assertion) -> Fields {
    object(json!({
        "name": assertion.name,
        "ok": assertion.ok,
        "severity": if assertion.ok { "info" } else { "error" },
        "detail": assertion.detail,
        "command": assertion.command,
    }))
}

fn of_finding(finding: &Finding) -> io::Result<Fields> {
    let severity = match finding.verdict {
        Verdict::Fail | Verdict::Error => "error",
        Verdict::Warn => "warning",
        _ => "info",
    };
    let mut evidence = finding.evidence.clone();
    if !finding.repro.is_empty() {
        evidence.insert("argv_redacted".to_owned(), json!(finding.repro));
    }
    let mut fields = object(json!({
        "name": finding.rule,
        "ok": !matches!(finding.verdict, Verdict::Fail | Verdict::Error),
        "severity": severity,
        "detail": finding.message,
        "rule": finding.rule,
        "check": serde_json::to_value(finding.check)?,
        "characteristic": finding.characteristics,
        "command": finding.command,
        "verdict": finding.verdict.as_str(),
        "section": finding.section,
        "evidence": evidence,
    }));
    if finding.known {
        fields.insert("known".to_owned(), true.into());
    }
    Ok(fields)
}
