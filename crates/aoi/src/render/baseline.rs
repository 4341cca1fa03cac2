//! Compares a report with an earlier one (the baseline).

use crate::model::{Finding, PairState, Report, Verdict};
use agentproto_report::baseline::{self, FixedRow};

/// A warning is known if the baseline has a warning or a failure. A failure is known only if it has
/// a failure.
fn severity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Fail | Verdict::Error => 2,
        Verdict::Warn => 1,
        _ => 0,
    }
}

/// Marks findings that are already in the baseline. Returns the violations of the baseline that are
/// fixed now.
pub fn apply(report: &mut Report, baseline: &Report) -> Vec<FixedRow> {
    let know = |row: &mut Finding, known| row.known = known;
    baseline::apply(&mut report.checks, &baseline.checks, severity, know)
}

/// Whether a pair is unproven now, but was not in the baseline.
pub fn new_unproven(report: &Report, baseline: Option<&Report>) -> bool {
    let known = |command: &str, characteristic| {
        let cell = |baseline: &Report| baseline.matrix.get(command)?.get(&characteristic).copied();
        baseline.and_then(cell) == Some(PairState::Unproven)
    };
    report.matrix.iter().any(|(command, cells)| {
        let unproven = cells
            .iter()
            .filter(|(_, pair)| **pair == PairState::Unproven);
        unproven
            .into_iter()
            .any(|(characteristic, _)| !known(command, *characteristic))
    })
}
