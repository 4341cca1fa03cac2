//! AIP-45 does not define the continuation strategy.

use super::BASE;
use crate::rule::{FixKind, Rule};

pub static CONT_STRATEGY_ENUM: Rule = Rule {
    slug: "cont-strategy-enum",
    title: "`continuation` names a strategy that AIP-45 does not define",
    decides: &["A45-CONT-02", "A45-FM-21"],
    fix: FixKind::Suggest,
    docs: include_str!("cont-strategy-enum.md"),
    ..BASE
};
