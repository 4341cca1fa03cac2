//! Rule `acp-kind-enum`: `kind` is not `client`, `server` or `bridge`.

use super::{ACP, aip44};
use crate::rule::{FixKind, Rule};

pub static ACP_KIND_ENUM: Rule = Rule {
    slug: "acp-kind-enum",
    title: "`kind` is not `client`, `server` or `bridge`",
    source: aip44("Roles"),
    decides: &["A44-ROLE-01", "A44-FM-05"],
    doctypes: ACP,
    fix: FixKind::Suggest,
    docs: include_str!("acp-kind-enum.md"),
    ..Rule::BASE
};
