//! fields.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "fields",
    rules: &[],
    checks: &[],
    claim: None,
};
