//! version_check.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "version_check",
    rules: &[],
    checks: &[],
    claim: None,
};
