//! Rule `fm-unknown-field`: a field is not in the schema.

use super::{SCHEMA, report_general};
use crate::rule::{FixKind, Level, Rule};
use agentproto_manifest::Doctype;

pub static FM_UNKNOWN_FIELD: Rule = Rule {
    slug: "fm-unknown-field",
    report: Some(report_general),
    title: "A field is not in the schema",
    level: Level::Must,
    source: SCHEMA,
    decides: &["A45-CONF-01", "A45-FM-16", "A45-AUTH-02"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("fm-unknown-field.md"),
    ..Rule::BASE
};
