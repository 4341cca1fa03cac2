//! Wording that several report formats share.

use serde_json::Value;

use crate::model::{Characteristic, Check, Finding, Pair, Report, TOOL, Verdict};
use crate::rules::{self, Level, Rule};
use agentproto_report::row::{self, Reason};
use agentproto_report::words::time;
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

/// `check 3`, or `advisory`.
pub fn check(check: Check) -> String {
    match check {
        Check::Number(number) => format!("check {number}"),
        Check::Advisory => "advisory".to_owned(),
    }
}

pub fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "the requirement was met",
        Verdict::Fail => "the requirement was violated",
        Verdict::Warn => "deviates from the spec, but does not fail",
        Verdict::Skip => "the probe file does not describe how to check this",
        Verdict::NotApplicable => "does not apply to this tool",
        Verdict::NotVerified => "no run could have shown a violation",
        Verdict::Error => "the linter could not check this",
    }
}

/// The rows of the matrix, with the tool itself first.
pub fn rows(report: &Report) -> Vec<(&str, [Pair; 10])> {
    let mut rows: Vec<(&str, [Pair; 10])> = report
        .matrix
        .iter()
        .map(|(command, cells)| {
            let cell = |c| cells.get(&c).copied().unwrap_or(Pair::NotApplicable);
            (command.as_str(), Characteristic::ALL.map(cell))
        })
        .collect();
    rows.sort_by_key(|(command, _)| *command != TOOL);
    rows
}

/// `31 pairs proven, 4 failing, 9 unproven`.
pub fn pairs(report: &Report) -> String {
    let summary = &report.summary;
    format!(
        "{} proven, {} failing, {} unproven",
        count(summary.pairs_proven, "pair", "pairs"),
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

/// Overhead of the linter: wall time minus the time in which the tool ran or a probe waited.
pub fn timing(report: &Report) -> String {
    let timing = &report.timing;
    #[allow(clippy::cast_precision_loss)]
    let told = |ms: u64| time(ms as f64);
    format!(
        "{} overhead on top of the tool's run time and intended waits ({} of {}); {}, up to {} \
         at a time, {} in total, {} of it intended waits",
        told(timing.wall_ms.saturating_sub(timing.busy_ms)),
        told(timing.busy_ms.min(timing.wall_ms)),
        told(timing.wall_ms),
        count(
            usize::try_from(timing.runs).unwrap_or(usize::MAX),
            "run",
            "runs"
        ),
        timing.jobs,
        told(timing.target_ms),
        told(timing.waits_ms),
    )
}

/// Quotes words as a command line for a shell.
pub fn shell(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    quoted.join(" ")
}

fn quote(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(safe) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
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
    let probe = evidence(finding, "probe").map_or_else(String::new, |p| format!("{p}: "));
    Some(format!("{probe}{end}{bytes}"))
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
    format!("{} ({})", row.rule, row.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["a b", "it's", "", "--x=1", "$HOME", "`id`"].map(str::to_owned);
        assert_eq!(shell(&words), r"'a b' 'it'\''s' '' --x=1 '$HOME' '`id`'");
    }
}
