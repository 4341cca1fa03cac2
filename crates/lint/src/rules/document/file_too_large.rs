//! Rule `file-too-large`: the file is too large to be a manifest.

use super::OWN;
use crate::rule::{Level, Rule};
use agentproto_manifest::Doctype;

pub static FILE_TOO_LARGE: Rule = Rule {
    slug: "file-too-large",
    title: "The file is too large to be a manifest",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    docs: include_str!("file-too-large.md"),
    ..Rule::BASE
};
