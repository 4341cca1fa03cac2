//! models.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "models",
    rules: &[],
    checks: &[],
    claim: None,
};
