//! `key_scope` has an unknown item.

use super::BASE;
use crate::rule::{FixKind, Rule};

pub static CONT_KEYSCOPE_ENUM: Rule = Rule {
    slug: "cont-keyscope-enum",
    title: "`pinned_session.key_scope` has an unknown item",
    decides: &["A45-CONT-13"],
    fix: FixKind::Suggest,
    docs: include_str!("cont-keyscope-enum.md"),
    ..BASE
};
