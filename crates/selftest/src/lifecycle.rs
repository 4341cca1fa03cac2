//! Self-test of the lifecycle suite: bundles with one defect each, and conforming bundles with
//! unusual features. Each is one of the mock bundles with a few words changed.

mod made;
mod promises;
mod start;
mod turns;
mod variants;

pub use made::{Made, trial};
pub use variants::variants;

use agentproto_mock::model;

/// A bundle with one defect.
pub type Mutant = model::Mutant<Made>;
/// A conforming bundle that differs from the others.
pub type Variant = model::Variant<Made>;

/// All mutants.
pub fn mutants() -> Vec<Mutant> {
    let mut all = start::mutants();
    all.extend(promises::mutants());
    all.extend(turns::mutants());
    all
}

fn wrong(id: &'static str, requirement: &'static str, wrong: &'static str, bundle: Made) -> Mutant {
    Mutant::new(id, requirement, bundle).says(wrong)
}

/// A mutant that violates a recommendation and gets a warning.
fn advice(id: &'static str, requirement: &'static str, what: &'static str, bundle: Made) -> Mutant {
    wrong(id, requirement, what, bundle).warns()
}
