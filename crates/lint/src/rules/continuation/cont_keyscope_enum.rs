//! The key of pinned sessions has a part that AIP-45 does not know.

use super::BASE;
use crate::rule::{FixKind, Rule};

pub static CONT_KEYSCOPE_ENUM: Rule = Rule {
    slug: "cont-keyscope-enum",
    title: "The key of pinned sessions has a part that AIP-45 does not know",
    decides: &["A45-CONT-13"],
    fix: FixKind::Suggest,
    docs: include_str!("cont-keyscope-enum.md"),
    ..BASE
};
