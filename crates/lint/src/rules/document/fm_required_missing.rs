//! Rule `fm-required-missing`: a required field is missing.

use super::{SCHEMA, report_general};
use crate::rule::{FixKind, Level, Rule};
use agentproto_manifest::Doctype;

pub static FM_REQUIRED_MISSING: Rule = Rule {
    slug: "fm-required-missing",
    report: Some(report_general),
    title: "A required field is missing",
    level: Level::Must,
    source: SCHEMA,
    decides: &[
        "A45-CONF-01",
        "A44-CONF-04",
        "A29-REQ-01",
        "A29-REQ-02",
        "A29-REQ-04",
        "A29-REQ-05",
        "A29-REQ-07",
        "A29-REQ-09",
        "A29-REQ-10",
        "A29-REQ-11",
        "A29-REQ-12",
        "A29-AUTH-04",
        "A44-FM-01",
        "A44-FM-02",
        "A44-FM-03",
        "A44-FM-04",
        "A44-FM-05",
        "A44-FM-06",
        "A44-FM-07",
        "A44-FM-08",
        "A45-FM-01",
        "A45-FM-02",
        "A45-FM-03",
        "A45-FM-04",
        "A45-FM-05",
        "A45-FM-07",
        "A45-FM-08",
        "A45-FM-12",
    ],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("fm-required-missing.md"),
    ..Rule::BASE
};
