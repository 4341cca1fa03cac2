//! Bundles that are wrong in exactly one way, and bundles that are right in odd ways: the judge
//! is judged by them. Each is one of the mock bundles with a few words changed.

mod made;
mod promises;
mod start;
mod turns;
mod variants;

pub use made::{Made, trial};
pub use variants::variants;

use agentproto_harness::model::Verdict;

pub struct Mutant {
    pub id: &'static str,
    /// The statement that it breaks.
    pub requirement: &'static str,
    /// What is wrong, in a sentence.
    pub wrong: &'static str,
    /// `fail`, or `warn` where the text only advises.
    pub verdict: Verdict,
    pub bundle: Made,
}

/// A bundle that conforms, and does not look like the others.
pub struct Variant {
    pub id: &'static str,
    pub what: &'static str,
    pub bundle: Made,
}

pub fn mutants() -> Vec<Mutant> {
    let mut all = start::mutants();
    all.extend(promises::mutants());
    all.extend(turns::mutants());
    all
}

fn wrong(id: &'static str, requirement: &'static str, wrong: &'static str, bundle: Made) -> Mutant {
    Mutant {
        id,
        requirement,
        wrong,
        verdict: Verdict::Fail,
        bundle,
    }
}

/// Something that had better not be.
fn advice(id: &'static str, requirement: &'static str, what: &'static str, bundle: Made) -> Mutant {
    Mutant {
        verdict: Verdict::Warn,
        ..wrong(id, requirement, what, bundle)
    }
}
