//! An older report as the measure of a new one: what was as bad then is known.

use std::collections::HashMap;

use crate::model::{Finding, Pair, Report, Verdict};

/// A rule that was broken in the baseline and is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    pub rule: String,
    pub command: String,
}

/// How bad; what is no finding is not bad at all.
fn badness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Fail | Verdict::Error => 2,
        Verdict::Warn => 1,
        _ => 0,
    }
}

fn worst(report: &Report) -> HashMap<(&str, &str), u8> {
    let mut worst = HashMap::new();
    for row in &report.checks {
        let bad = worst.entry(identity(row)).or_insert(0);
        *bad = badness(row.verdict).max(*bad);
    }
    worst
}

fn identity(row: &Finding) -> (&str, &str) {
    (&row.rule, &row.command)
}

/// Marks what was as bad in the baseline. Returns what was broken there and holds here; what was
/// not judged this time is not called fixed.
pub fn apply(report: &mut Report, baseline: &Report) -> Vec<Fixed> {
    let before = worst(baseline);
    for row in &mut report.checks {
        let bad = badness(row.verdict);
        row.known = bad > 0 && before.get(&(&*row.rule, &*row.command)) >= Some(&bad);
    }
    let now = worst(report);
    let held = |row: &&Finding| {
        row.verdict == Verdict::Pass
            && now.get(&identity(row)) == Some(&0)
            && before.get(&identity(row)).is_some_and(|bad| *bad > 0)
    };
    let fixed = report.checks.iter().filter(held);
    let mut fixed: Vec<Fixed> = fixed
        .map(|row| Fixed {
            rule: row.rule.clone(),
            command: row.command.clone(),
        })
        .collect();
    fixed.dedup();
    fixed
}

/// Whether a pair is unproven that was not in the baseline.
pub fn new_unproven(report: &Report, baseline: Option<&Report>) -> bool {
    let known = |command: &str, characteristic| {
        let cell = |baseline: &Report| baseline.matrix.get(command)?.get(&characteristic).copied();
        baseline.and_then(cell) == Some(Pair::Unproven)
    };
    report.matrix.iter().any(|(command, cells)| {
        let unproven = cells.iter().filter(|(_, pair)| **pair == Pair::Unproven);
        unproven
            .into_iter()
            .any(|(characteristic, _)| !known(command, *characteristic))
    })
}
