//! Wording that several report formats share.

use serde_json::Value;

use crate::capture::PLAIN_RUN;
use crate::model::{Characteristic, CheckId, Finding, PairState, Report, TOOL, Verdict};
use crate::rules::{self, Level, Rule};
use agentproto_report::row::{self, Reason};
use agentproto_report::words::format_duration;
use agentproto_text::count;

/// The spec that the tool is checked against.
pub const SPEC: &str = "AOI-CLI 0.2";

/// The rule of a finding. `None` if a saved report names a rule that no longer exists.
pub fn rule(finding: &Finding) -> Option<&'static Rule> {
    rules::find(&finding.rule)
}

pub fn level(level: Level) -> &'static str {
    match level {
        Level::Must => "MUST",
        Level::Should => "SHOULD",
        Level::Open => "open",
    }
}

/// `check 3`, or `outside the 13 checks`.
pub fn check(check: CheckId) -> String {
    match check {
        CheckId::Number(number) => format!("check {number}"),
        CheckId::Advisory => "outside the 13 checks".to_owned(),
    }
}

pub fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "the requirement was met",
        Verdict::Fail => "the requirement was violated",
        Verdict::Warn => "deviates from the spec, but does not fail",
        Verdict::Skip => "not checked; each line says what is missing",
        Verdict::NotApplicable => "does not apply to this tool",
        Verdict::NotVerified => "no run could show whether this holds",
        Verdict::Error => "the linter could not check this",
    }
}

/// The name of a command for readers.
pub fn command(name: &str) -> &str {
    match name {
        TOOL => "(whole tool)",
        name => name,
    }
}

/// The rows of the matrix, with the tool itself first.
pub fn rows(report: &Report) -> Vec<(&str, [PairState; 10])> {
    let mut rows: Vec<(&str, [PairState; 10])> = report
        .matrix
        .iter()
        .map(|(command, cells)| {
            let cell = |c| cells.get(&c).copied().unwrap_or(PairState::NotApplicable);
            (command.as_str(), Characteristic::ALL.map(cell))
        })
        .collect();
    rows.sort_by_key(|(command, _)| *command != TOOL);
    rows
}

/// `Of 44 properties: 31 proven, 4 failing, 9 not verified`. A property is a cell of the matrix.
pub fn pairs(report: &Report) -> String {
    let summary = &report.summary;
    format!(
        "Of {}: {} proven, {} failing, {} not verified",
        count(applicable(report), "property", "properties"),
        summary.pairs_proven,
        summary.pairs_failing,
        summary.pairs_unproven
    )
}

/// Counts new and known failures, if the baseline contains any.
pub fn known(report: &Report) -> Option<String> {
    let broken = |row: &&Finding| matches!(row.verdict, Verdict::Fail | Verdict::Error);
    let (known, new): (Vec<&Finding>, Vec<&Finding>) = report
        .checks
        .iter()
        .filter(broken)
        .partition(|row| row.known);
    let new = count(new.len(), "new failure", "new failures");
    (!known.is_empty()).then(|| format!("{new}, {} already in the baseline", known.len()))
}

/// Number of pairs that apply to this tool.
pub fn applicable(report: &Report) -> usize {
    let summary = &report.summary;
    summary.pairs_proven + summary.pairs_failing + summary.pairs_unproven
}

/// `outline 1.8.2`.
pub fn target(report: &Report) -> String {
    match &report.target.version {
        Some(version) => format!("{} {version}", report.target.name),
        None => report.target.name.clone(),
    }
}

/// `33 runs in 1.6 s`. The JSON report has more details.
pub fn timing(report: &Report) -> String {
    let timing = &report.timing;
    let runs = usize::try_from(timing.runs).unwrap_or(usize::MAX);
    #[allow(clippy::cast_precision_loss)]
    let wall = format_duration(timing.wall_ms as f64);
    format!("{} in {wall}", count(runs, "run", "runs"))
}

/// A string in the evidence, unless it is blank.
pub fn evidence<'f>(finding: &'f Finding, key: &str) -> Option<&'f str> {
    let text = finding.evidence.get(key).and_then(Value::as_str)?;
    (!text.trim().is_empty()).then_some(text)
}

/// How the run ended and how much it printed, as one phrase.
pub fn observed(finding: &Finding) -> Option<String> {
    let end = evidence(finding, "end")?;
    let bytes = finding.evidence.get("stdout_bytes").and_then(Value::as_u64);
    let bytes = bytes.map_or_else(String::new, |n| {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        format!(", {} on stdout", count(n, "byte", "bytes"))
    });
    let probe = match evidence(finding, "probe") {
        Some(PLAIN_RUN) | None => String::new(),
        Some(probe) => format!("{}: ", run_name(probe)),
    };
    Some(format!("{probe}{end}{bytes}"))
}

/// The name of a run for readers. A name that is an argument of the tool needs no explanation.
fn run_name(probe: &str) -> String {
    match probe.starts_with('-') {
        true => format!("`{probe}`"),
        false => format!("in the run `{probe}`"),
    }
}

/// The message without internal names of runs at its start.
pub fn message(finding: &Finding) -> String {
    let message = &finding.message;
    let named = evidence(finding, "probe")
        .and_then(|probe| Some((probe, message.strip_prefix(&format!("`{probe}`"))?)));
    match named {
        None => message.clone(),
        Some((PLAIN_RUN, rest)) => match rest.strip_prefix(": ") {
            Some(rest) => rest.to_owned(),
            None => format!("stdout{rest}"),
        },
        Some((probe, rest)) => format!("{}{rest}", run_name(probe)),
    }
}

/// Names of the environment variables that were set for the run.
pub fn variables(finding: &Finding) -> Vec<&str> {
    let names = finding.evidence.get("env").and_then(Value::as_array);
    let names = names.map(Vec::as_slice).unwrap_or_default();
    names.iter().filter_map(Value::as_str).collect()
}

/// Findings with a verdict, grouped by their message.
pub fn reasons(report: &Report, verdict: Verdict) -> Vec<Reason<'_, Finding>> {
    let rows = report.checks.iter();
    row::reasons(rows.filter(|row| row.verdict == verdict))
}

/// `rule (command)`.
pub fn named(row: &Finding) -> String {
    match row.command.as_str() {
        TOOL => format!("{} {}", row.rule, command(TOOL)),
        name => format!("{} ({name})", row.rule),
    }
}
