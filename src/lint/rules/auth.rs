//! auth.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "auth",
    rules: &[],
    checks: &[],
    claim: None,
};
