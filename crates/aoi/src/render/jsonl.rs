//! AOI machine mode: an `aoi:check` per rule and command, a `pair` per cell of the matrix. A
//! superset of what the reference's linter prints; `verdict` says more than `ok`.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::Options;
use crate::model::{Assertion, Characteristic, Finding, Pair, Report, Verdict};
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::Event;

pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta("aoi-lint")?;
    let (mut count, mut bad) = (0_usize, 0_usize);
    let mut check = |emitter: &mut Emitter, fields: Fields| {
        count += 1;
        bad += usize::from(fields.get("ok") == Some(&Value::Bool(false)));
        emitter.event(Event::Check, &fields)
    };
    for assertion in &report.compat {
        check(&mut emitter, of_assertion(assertion))?;
    }
    for finding in &report.checks {
        check(&mut emitter, of_finding(finding)?)?;
    }
    for (command, cells) in super::words::rows(report) {
        for (characteristic, pair) in Characteristic::ALL.into_iter().zip(cells) {
            count += 1;
            let fields = json!({
                "command": command,
                "characteristic": characteristic.as_str(),
                "verdict": serde_json::to_value::<Pair>(pair)?,
            });
            emitter.event(Event::Pair, &object(fields))?;
        }
    }
    let summary = &report.summary;
    let mut fields = object(json!({
        "count": count,
        "error_count": bad,
        "partial": report.partial,
        "target": report.target.name,
        "pairs_proven": summary.pairs_proven,
        "pairs_failing": summary.pairs_failing,
        "pairs_unproven": summary.pairs_unproven,
        "counts": {
            "pass": summary.pass,
            "fail": summary.fail,
            "warn": summary.warn,
            "skip": summary.skip,
            "n_a": summary.n_a,
            "not_verified": summary.not_verified,
            "error": summary.error,
        },
        "known_count": report.checks.iter().filter(|f| f.known).count(),
        "timing": report.timing,
    }));
    if report.partial {
        fields.insert("reason".to_owned(), "interrupted".into());
    }
    if !options.fixed.is_empty() {
        let fixed = options
            .fixed
            .iter()
            .map(|f| json!({ "rule": f.rule, "command": f.command }));
        fields.insert("fixed".to_owned(), fixed.collect());
    }
    let ok = options.ok && !report.partial;
    emitter.summary(ok, Duration::from_millis(report.timing.wall_ms), fields)
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
