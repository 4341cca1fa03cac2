//! Rule `acp-caps-unknown`: a capability is unknown.

use super::{ACP, aip44};
use crate::rule::{FixKind, Rule};

pub static ACP_CAPS_UNKNOWN: Rule = Rule {
    slug: "acp-caps-unknown",
    title: "A capability is unknown",
    source: aip44("Capability negotiation"),
    decides: &["A44-FM-09", "A44-CAP-02", "A44-CAP-03", "A44-CAP-04"],
    doctypes: ACP,
    fix: FixKind::Suggest,
    docs: include_str!("acp-caps-unknown.md"),
    ..Rule::BASE
};
