//! An older report as the measure of a new one: what was as bad then is known, the rest is new.
//! The linter's baseline is another thing: a file that people keep and edit, not a report.

use std::collections::{HashMap, HashSet};

use crate::{Row, Verdict};

/// A row that was bad in the baseline and holds now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fixed {
    pub id: String,
    pub place: String,
}

/// Says of each row whether the baseline knows it: it was as bad there. `badness` is 0 for what is
/// not bad at all. Returns what was bad there and passes here; what was not judged this time is
/// not called fixed.
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

/// What a row is, whatever came of it.
fn identity<R: Row>(row: &R) -> Fixed {
    Fixed {
        id: row.id().to_owned(),
        place: row.place().into_owned(),
    }
}
