//! A field is outside its bounds.

use super::{SCHEMA, general};
use crate::rule::{FixKind, Level, Rule};
use agentproto_manifest::Doctype;

pub static FM_RANGE: Rule = Rule {
    slug: "fm-range",
    words: Some(general),
    title: "A field is outside its bounds",
    level: Level::Must,
    source: SCHEMA,
    decides: &["A45-CONF-01"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("fm-range.md"),
    ..Rule::BASE
};
