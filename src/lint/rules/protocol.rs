//! protocol.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "protocol",
    rules: &[],
    checks: &[],
    claim: None,
};
