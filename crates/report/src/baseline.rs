//! Compares a report with an earlier one (the baseline). A row that was at least as bad in the
//! baseline is known, and all others are new. The linter's baseline is different: a file that
//! people edit, not a report.

use std::collections::{HashMap, HashSet};

use crate::{Row, Verdict};

/// A row that was bad in the baseline and passes now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FixedRow {
    /// Id of the row.
    pub id: String,
    /// Subject of the row: a command, or a suite and its case.
    pub subject: String,
}

/// Calls `mark_known` for each row with whether the row was at least as bad in the baseline.
/// `severity` is 0 for a verdict that is not bad. Returns the rows that were bad in the baseline
/// and pass now. A row without a verdict this time is not fixed.
pub fn apply<R: Row>(
    rows: &mut [R],
    baseline: &[R],
    severity: impl Fn(Verdict) -> u8,
    mut mark_known: impl FnMut(&mut R, bool),
) -> Vec<FixedRow> {
    let mut before: HashMap<FixedRow, u8> = HashMap::new();
    for row in baseline {
        let worst = before.entry(identity(row)).or_default();
        *worst = severity(row.verdict()).max(*worst);
    }
    before.retain(|_, bad| *bad > 0);
    for row in rows.iter_mut() {
        let bad = severity(row.verdict());
        let known = bad > 0 && before.get(&identity(row)) >= Some(&bad);
        mark_known(row, known);
    }
    let passes = |row: &&R| row.verdict() == Verdict::Pass;
    let mut seen: HashSet<FixedRow> = rows.iter().filter(|r| !passes(r)).map(identity).collect();
    let passing = rows.iter().filter(passes).map(identity);
    passing
        .filter(|row| before.contains_key(row) && seen.insert(row.clone()))
        .collect()
}

/// Identity of a row, independent of its verdict.
fn identity<R: Row>(row: &R) -> FixedRow {
    FixedRow {
        id: row.id().to_owned(),
        subject: row.subject().into_owned(),
    }
}
