//! Rule `fm-range`: a value is out of range or does not match its pattern.

use super::{SCHEMA, report_general};
use crate::rule::{FixKind, Level, Rule};
use agentproto_manifest::Doctype;

pub static FM_RANGE: Rule = Rule {
    slug: "fm-range",
    report: Some(report_general),
    title: "A value is out of range or does not match its pattern",
    level: Level::Must,
    source: SCHEMA,
    decides: &["A45-CONF-01"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("fm-range.md"),
    ..Rule::BASE
};
