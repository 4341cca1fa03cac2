//! sandbox29.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "sandbox29",
    rules: &[],
    checks: &[],
    claim: None,
};
