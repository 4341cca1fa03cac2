//! Rules over all manifests of a run.

use crate::lint::registry::Family;
use crate::lint::{Finding, Index, RuleSet};
use crate::manifest::Workspace;

pub static FAMILY: Family = Family {
    name: "registry_wide",
    rules: &[],
    checks: &[],
    claim: None,
};

/// Findings that need every manifest of the run.
pub fn findings(_index: &Index, _workspace: &Workspace<'_>, _rules: &RuleSet) -> Vec<Finding> {
    Vec::new()
}
