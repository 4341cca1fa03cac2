//! refs.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "refs",
    rules: &[],
    checks: &[],
    claim: None,
};
