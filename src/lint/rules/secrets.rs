//! secrets.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "secrets",
    rules: &[],
    checks: &[],
    claim: None,
};
