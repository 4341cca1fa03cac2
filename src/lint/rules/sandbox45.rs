//! sandbox45.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "sandbox45",
    rules: &[],
    checks: &[],
    claim: None,
};
