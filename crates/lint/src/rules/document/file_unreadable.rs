//! Rule `file-unreadable`: the file cannot be read.

use super::OWN;
use crate::rule::{Level, Rule};
use agentproto_manifest::Doctype;

pub static FILE_UNREADABLE: Rule = Rule {
    slug: "file-unreadable",
    title: "The file cannot be read",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    docs: include_str!("file-unreadable.md"),
    ..Rule::BASE
};
