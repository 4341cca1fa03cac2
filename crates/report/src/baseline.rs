//! Compares a report with an earlier one (the baseline). A row that was at least as bad in the
//! baseline is known, and all others are new. The linter's baseline is different: a file that
//! people edit, not a report.

use std::collections::{HashMap, HashSet};

use crate::{Row, Verdict};

/// A row that was bad in the baseline and passes now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fixed {
    /// Id of the row.
    pub id: String,
    /// Place of the row.
    pub place: String,
}

/// Calls `know` for each row with whether the baseline knows it, which means that it was at least
/// as bad there. `badness` is 0 for a verdict that is not bad. Returns the rows that were bad in
/// the baseline and pass now. A row without a verdict this time is not fixed.
pub fn apply<R: Row>(
    rows: &mut [R],
    baseline: &[R],
    badness: impl Fn(Verdict) -> u8,
    mut know: impl FnMut(&mut R, bool),
) -> Vec<Fixed> {
    let mut before: HashMap<Fixed, u8> = HashMap::new();
    for row in baseline {
        let worst = before.entry(identity(row)).or_default();
        *worst = badness(row.verdict()).max(*worst);
    }
    before.retain(|_, bad| *bad > 0);
    for row in rows.iter_mut() {
        let bad = badness(row.verdict());
        let known = bad > 0 && before.get(&identity(row)) >= Some(&bad);
        know(row, known);
    }
    let passes = |row: &&R| row.verdict() == Verdict::Pass;
    let mut seen: HashSet<Fixed> = rows.iter().filter(|r| !passes(r)).map(identity).collect();
    let passing = rows.iter().filter(passes).map(identity);
    passing
        .filter(|row| before.contains_key(row) && seen.insert(row.clone()))
        .collect()
}

/// Identity of a row, independent of its verdict.
fn identity<R: Row>(row: &R) -> Fixed {
    Fixed {
        id: row.id().to_owned(),
        place: row.place().into_owned(),
    }
}
