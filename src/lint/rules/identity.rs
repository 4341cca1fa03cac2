//! identity.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "identity",
    rules: &[],
    checks: &[],
    claim: None,
};
