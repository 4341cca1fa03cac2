//! session.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "session",
    rules: &[],
    checks: &[],
    claim: None,
};
