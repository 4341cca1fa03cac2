//! continuation.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "continuation",
    rules: &[],
    checks: &[],
    claim: None,
};
