//! What several formats say of a report.

use serde_json::Value;

use crate::model::{Characteristic, Check, Finding, Pair, Report, TOOL, Verdict};
use crate::rules::{self, Level, Rule};
use agentproto_report::row::{self, Reason};
use agentproto_report::words::time;
use agentproto_text::count;

/// The text that is checked against.
pub const SPEC: &str = "AOI-CLI 0.2";

/// The rule of a row; a saved report may name one that is no more.
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
        Verdict::Pass => "seen to hold",
        Verdict::Fail => "seen broken",
        Verdict::Warn => "not as it should be, and no failure",
        Verdict::Skip => "the probe file does not say how",
        Verdict::NotApplicable => "the tool does not claim this",
        Verdict::NotVerified => "nothing happened that could have shown the opposite",
        Verdict::Error => "the linter could not judge",
    }
}

/// The rows of the matrix, the tool itself first.
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

/// Where a baseline knows some of what is broken.
pub fn known(report: &Report) -> Option<String> {
    let broken = |row: &&Finding| matches!(row.verdict, Verdict::Fail | Verdict::Error);
    let (known, new): (Vec<&Finding>, Vec<&Finding>) = report
        .checks
        .iter()
        .filter(broken)
        .partition(|row| row.known);
    let new = count(new.len(), "new failure", "new failures");
    (!known.is_empty()).then(|| format!("{new}, {} known by the baseline", known.len()))
}

/// All pairs that mean something for this tool.
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

/// What our own work cost: wall time less the time in which the target ran or a wait was due.
pub fn timing(report: &Report) -> String {
    let timing = &report.timing;
    #[allow(clippy::cast_precision_loss)]
    let told = |ms: u64| time(ms as f64);
    format!(
        "{} overhead over the target's own run time and enforced waits ({} of {}); {}, {} at a \
         time, {} in all, {} of it waits",
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

/// A command line that a shell reads as these words.
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

/// A text of the evidence.
pub fn evidence<'f>(finding: &'f Finding, key: &str) -> Option<&'f str> {
    let text = finding.evidence.get(key).and_then(Value::as_str)?;
    (!text.trim().is_empty()).then_some(text)
}

/// How the run ended and what it printed, in a sentence.
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

/// Variables that were set for the run.
pub fn variables(finding: &Finding) -> Vec<&str> {
    let names = finding.evidence.get("env").and_then(Value::as_array);
    let names = names.map(Vec::as_slice).unwrap_or_default();
    names.iter().filter_map(Value::as_str).collect()
}

/// Why rows have a verdict.
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
    fn a_shell_reads_the_words_back() {
        let words = ["a b", "it's", "", "--x=1", "$HOME", "`id`"].map(str::to_owned);
        assert_eq!(shell(&words), r"'a b' 'it'\''s' '' --x=1 '$HOME' '`id`'");
    }
}
