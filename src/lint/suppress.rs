//! Inline ignores: `# agentproto: ignore[rule-a, rule-b] reason`.

use super::finding::Finding;
use super::settings::RuleSet;
use crate::manifest::Document;

pub fn apply(_doc: &Document, _rules: &RuleSet, _findings: &mut Vec<Finding>) {}
