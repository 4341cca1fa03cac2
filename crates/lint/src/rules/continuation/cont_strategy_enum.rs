//! The continuation strategy is not one that AIP-45 knows.

use super::BASE;
use crate::rule::{FixKind, Rule};

pub static CONT_STRATEGY_ENUM: Rule = Rule {
    slug: "cont-strategy-enum",
    title: "The continuation strategy is not one that AIP-45 knows",
    decides: &["A45-CONT-02", "A45-FM-21"],
    fix: FixKind::Suggest,
    docs: include_str!("cont-strategy-enum.md"),
    ..BASE
};
