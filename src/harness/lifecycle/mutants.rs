//! Bundles that are wrong in exactly one way, and bundles that are right in odd ways.
pub struct Mutant;
pub struct Variant;
pub fn mutants() -> Vec<Mutant> {
    Vec::new()
}
pub fn variants() -> Vec<Variant> {
    Vec::new()
}
