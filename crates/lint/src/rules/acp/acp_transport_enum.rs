//! Rule `acp-transport-enum`: a transport is unknown.

use super::{ACP, aip44};
use crate::rule::{FixKind, Rule};

pub static ACP_TRANSPORT_ENUM: Rule = Rule {
    slug: "acp-transport-enum",
    title: "A transport is unknown",
    source: aip44("Transports"),
    decides: &["A44-FM-06"],
    doctypes: ACP,
    fix: FixKind::Suggest,
    docs: include_str!("acp-transport-enum.md"),
    ..Rule::BASE
};
