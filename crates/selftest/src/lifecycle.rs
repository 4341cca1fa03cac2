//! Bundles that are wrong in exactly one way, and bundles that are right in odd ways: the judge
//! is judged by them. Each is one of the mock bundles with a few words changed.

mod made;
mod promises;
mod start;
mod turns;
mod variants;

pub use made::{Made, trial};
pub use variants::variants;

use agentproto_mock::model;

pub type Mutant = model::Mutant<Made>;
/// A bundle that conforms, and does not look like the others.
pub type Variant = model::Variant<Made>;

pub fn mutants() -> Vec<Mutant> {
    let mut all = start::mutants();
    all.extend(promises::mutants());
    all.extend(turns::mutants());
    all
}

fn wrong(id: &'static str, requirement: &'static str, wrong: &'static str, bundle: Made) -> Mutant {
    Mutant::new(id, requirement, bundle).says(wrong)
}

/// Something that had better not be.
fn advice(id: &'static str, requirement: &'static str, what: &'static str, bundle: Made) -> Mutant {
    wrong(id, requirement, what, bundle).warns()
}
