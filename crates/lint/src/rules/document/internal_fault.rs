//! A rule failed inside agentproto.

use super::OWN;
use crate::rule::{Level, Rule};
use agentproto_manifest::Doctype;

pub static INTERNAL_FAULT: Rule = Rule {
    slug: "internal-fault",
    title: "A rule failed inside agentproto",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    docs: include_str!("internal-fault.md"),
    ..Rule::BASE
};
