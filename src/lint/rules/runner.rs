//! runner.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "runner",
    rules: &[],
    checks: &[],
    claim: None,
};
