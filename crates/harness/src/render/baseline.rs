//! Baselines: failures of an earlier report are known.

use crate::model::{CaseResult, Report, Verdict};
use agentproto_report::baseline::{self, FixedRow};

/// Marks the rows that also failed in the baseline, and updates the summary. Returns what failed
/// there and passes now.
pub fn apply(report: &mut Report, baseline: &Report) -> Vec<FixedRow> {
    let failed = |verdict| u8::from(matches!(verdict, Verdict::Fail | Verdict::Error));
    let know = |row: &mut CaseResult, known| row.known = known;
    let fixed = baseline::apply(&mut report.results, &baseline.results, failed, know);
    report.summarize();
    fixed
}
