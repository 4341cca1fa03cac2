//! modes.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "modes",
    rules: &[],
    checks: &[],
    claim: None,
};
