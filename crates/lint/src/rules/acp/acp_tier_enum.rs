//! Rule `acp-tier-enum`: the tier is unknown.

use super::{ACP, aip44};
use crate::rule::{FixKind, Rule};

pub static ACP_TIER_ENUM: Rule = Rule {
    slug: "acp-tier-enum",
    title: "The tier is unknown",
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-01", "A44-FM-08"],
    doctypes: ACP,
    fix: FixKind::Suggest,
    docs: include_str!("acp-tier-enum.md"),
    ..Rule::BASE
};
