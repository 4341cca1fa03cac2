//! Self-test of the lifecycle suite: bundles with one defect each, and conforming bundles with
//! unusual features. Each is one of the mock bundles with a few words changed.

mod bundle;
mod declarations;
mod start;
mod turns;
mod variants;

pub use bundle::{BundleSpec, run_suite};
pub use variants::variants;

use agentproto_mock::model;

/// A bundle with one defect.
pub type Mutant = model::Mutant<BundleSpec>;
/// A conforming bundle that differs from the others.
pub type Variant = model::Variant<BundleSpec>;

/// All mutants.
pub fn mutants() -> Vec<Mutant> {
    let mut all = start::mutants();
    all.extend(declarations::mutants());
    all.extend(turns::mutants());
    all
}

fn mutant(
    id: &'static str,
    requirement: &'static str,
    defect: &'static str,
    bundle: BundleSpec,
) -> Mutant {
    Mutant::new(id, requirement, bundle).describe(defect)
}

/// A mutant that violates a recommendation and gets a warning.
fn recommendation(
    id: &'static str,
    requirement: &'static str,
    what: &'static str,
    bundle: BundleSpec,
) -> Mutant {
    mutant(id, requirement, what, bundle).expect_warning()
}
