//! Rule `internal-fault`: a rule failed with an internal error.

use super::OWN;
use crate::rule::{Level, Rule};
use agentproto_manifest::Doctype;

pub static INTERNAL_FAULT: Rule = Rule {
    slug: "internal-fault",
    title: "A rule failed with an internal error",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    docs: include_str!("internal-fault.md"),
    ..Rule::BASE
};
