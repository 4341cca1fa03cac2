//! Rule `setup-id-unique`: two steps have the same id.

use super::{CLI_AND_AGENT_CLI, SETUP};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope};
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static SETUP_ID_UNIQUE: Rule = Rule {
    slug: "setup-id-unique",
    title: "Two steps have the same id",
    level: Level::Derived,
    source: SETUP,
    decides: &["A29-SETUP-11"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("setup-id-unique.md"),
    ..Rule::BASE
};

pub(super) fn unique<'d>(ctx: &RuleContext<'d>, id: &'d Node, first: &'d Node) {
    let text = truncate(id.as_str().unwrap_or(""), 64);
    ctx.report(
        FindingDraft::new(&SETUP_ID_UNIQUE, id, format!("duplicate step id `{text}`"))
            .help("give each step a unique id")
            .nearby(first.span, "first here"),
    );
}
