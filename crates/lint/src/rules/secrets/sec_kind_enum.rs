//! AIP-19 does not define this kind of secret.

use super::{SECRETS, aip19};
use crate::rule::{FixKind, Rule};

pub static SEC_KIND_ENUM: Rule = Rule {
    slug: "sec-kind-enum",
    title: "AIP-19 does not define this kind of secret",
    source: aip19("Frontmatter"),
    doctypes: SECRETS,
    fix: FixKind::Suggest,
    docs: include_str!("sec-kind-enum.md"),
    ..Rule::BASE
};
