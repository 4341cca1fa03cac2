//! Bundles that are wrong in exactly one way, and bundles that are right in odd ways: the judge
//! is judged by them. Each is one of the mock bundles with a few words changed.

mod made;
mod table;
mod variants;

pub use made::{Made, trial};

use crate::harness::model::Verdict;

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

pub fn mutants() -> &'static [Mutant] {
    table::MUTANTS
}

pub fn variants() -> &'static [Variant] {
    variants::VARIANTS
}
