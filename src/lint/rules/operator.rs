//! operator.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "operator",
    rules: &[],
    checks: &[],
    claim: None,
};
