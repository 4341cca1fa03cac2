//! options.

use crate::lint::registry::Family;

pub static FAMILY: Family = Family {
    name: "options",
    rules: &[],
    checks: &[],
    claim: None,
};
