//! A kind of secret that AIP-19 does not have.

use super::{SECRETS, aip19};
use crate::rule::{FixKind, Rule};

pub static SEC_KIND_ENUM: Rule = Rule {
    slug: "sec-kind-enum",
    title: "A kind of secret that AIP-19 does not have",
    source: aip19("Frontmatter"),
    doctypes: SECRETS,
    fix: FixKind::Suggest,
    docs: include_str!("sec-kind-enum.md"),
    ..Rule::BASE
};
