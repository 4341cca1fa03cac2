//! Two steps share an id.

use super::{BOTH, SETUP};
use crate::context::{Context, Draft};
use crate::rule::{Level, Rule, Scope};
use agentproto_manifest::Node;
use agentproto_text::short;

pub static SETUP_ID_UNIQUE: Rule = Rule {
    slug: "setup-id-unique",
    title: "Two steps share an id",
    level: Level::Derived,
    source: SETUP,
    decides: &["A29-SETUP-11"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    docs: include_str!("setup-id-unique.md"),
    ..Rule::BASE
};

pub(super) fn unique<'d>(ctx: &Context<'d>, id: &'d Node, first: &'d Node) {
    let text = short(id.as_str().unwrap_or(""), 64);
    ctx.report(
        Draft::new(
            &SETUP_ID_UNIQUE,
            id,
            format!("two steps have the id `{text}`"),
        )
        .help("give each step an id of its own")
        .nearby(first.span, "first here"),
    );
}
