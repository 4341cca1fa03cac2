//! acp.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "acp",
    rules: &[],
    checks: &[],
    claim: None,
};
