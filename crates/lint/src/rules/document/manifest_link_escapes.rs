//! Rule `manifest-link-escapes`: the file is a symbolic link that leaves the workspace.

use super::OWN;
use crate::rule::{FixKind, Level, Rule};
use agentproto_manifest::Doctype;

pub static MANIFEST_LINK_ESCAPES: Rule = Rule {
    slug: "manifest-link-escapes",
    title: "The file is a symbolic link that leaves the workspace",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    docs: include_str!("manifest-link-escapes.md"),
    ..Rule::BASE
};
