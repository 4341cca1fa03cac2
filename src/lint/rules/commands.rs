//! commands.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "commands",
    rules: &[],
    checks: &[],
    claim: None,
};
