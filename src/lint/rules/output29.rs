//! output29.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "output29",
    rules: &[],
    checks: &[],
    claim: None,
};
