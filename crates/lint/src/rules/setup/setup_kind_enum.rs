//! Rule `setup-kind-enum`: the kind of a step is unknown.

use super::{CLI_AND_AGENT_CLI, SETUP};
use crate::rule::{FixKind, Rule};

pub static SETUP_KIND_ENUM: Rule = Rule {
    slug: "setup-kind-enum",
    title: "The kind of a step is unknown",
    source: SETUP,
    decides: &["A29-SETUP-04", "A45-FM-09", "A45-SETUP-01", "A45-SETUP-03"],
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Suggest,
    docs: include_str!("setup-kind-enum.md"),
    ..Rule::BASE
};
