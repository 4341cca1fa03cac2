//! sandbox36.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "sandbox36",
    rules: &[],
    checks: &[],
    claim: None,
};
