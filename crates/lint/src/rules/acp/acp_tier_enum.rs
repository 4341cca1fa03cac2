//! A tier that AIP-44 does not have.

use super::{ACP, aip44};
use crate::rule::{FixKind, Rule};

pub static ACP_TIER_ENUM: Rule = Rule {
    slug: "acp-tier-enum",
    title: "A tier that AIP-44 does not have",
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-01", "A44-FM-08"],
    doctypes: ACP,
    fix: FixKind::Suggest,
    docs: include_str!("acp-tier-enum.md"),
    ..Rule::BASE
};
