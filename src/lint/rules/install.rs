//! install.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "install",
    rules: &[],
    checks: &[],
    claim: None,
};
