//! setup.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "setup",
    rules: &[],
    checks: &[],
    claim: None,
};
