//! Rule `fm-enum`: a field has a value that is not allowed.

use super::{SCHEMA, report_general};
use crate::rule::{FixKind, Level, Rule};
use agentproto_manifest::Doctype;

pub static FM_ENUM: Rule = Rule {
    slug: "fm-enum",
    report: Some(report_general),
    title: "A field has a value that is not allowed",
    level: Level::Must,
    source: SCHEMA,
    decides: &[
        "A45-CONF-01",
        "A44-CONF-04",
        "A29-SETUP-06",
        "A29-OUT-01",
        "A29-OUT-12",
    ],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("fm-enum.md"),
    ..Rule::BASE
};
