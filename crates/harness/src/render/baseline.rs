//! An older report as the measure of a new one: what failed then is known, the rest is news.

use std::collections::HashSet;

use crate::model::{CaseResult, Report, Verdict};

/// A row that failed in the baseline and does no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    pub suite: String,
    pub case: String,
    pub requirement: String,
}

/// What a row is, whatever came of it.
type Identity<'r> = (&'r str, &'r str, &'r str);

fn identity(row: &CaseResult) -> Identity<'_> {
    (&row.suite, &row.case, &row.requirement)
}

fn failed(row: &CaseResult) -> bool {
    matches!(row.verdict, Verdict::Fail | Verdict::Error)
}

/// Marks the rows that failed in the baseline, too, and sums up again. Returns what failed
/// there and passes here; what was not judged this time is not called fixed.
pub fn apply(report: &mut Report, baseline: &Report) -> Vec<Fixed> {
    let before: HashSet<Identity> = baseline
        .results
        .iter()
        .filter(|r| failed(r))
        .map(identity)
        .collect();
    for row in &mut report.results {
        row.known = failed(row) && before.contains(&identity(row));
    }
    report.sum_up();
    let still_bad: HashSet<Identity> = report
        .results
        .iter()
        .filter(|r| r.verdict != Verdict::Pass)
        .map(identity)
        .collect();
    let mut told = HashSet::new();
    report
        .results
        .iter()
        .map(identity)
        .filter(|row| before.contains(row) && !still_bad.contains(row) && told.insert(*row))
        .map(|(suite, case, requirement)| Fixed {
            suite: suite.to_owned(),
            case: case.to_owned(),
            requirement: requirement.to_owned(),
        })
        .collect()
}
