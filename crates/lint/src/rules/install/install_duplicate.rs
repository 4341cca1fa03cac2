//! Rule `install-duplicate`: an install method is listed twice.

use super::{CLI_AND_AGENT_CLI, METHODS};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static INSTALL_DUPLICATE: Rule = Rule {
    slug: "install-duplicate",
    title: "An install method is listed twice",
    severity: Severity::Info,
    level: Level::Derived,
    source: METHODS,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("install-duplicate.md"),
    ..Rule::BASE
};

pub(super) fn duplicate<'d>(ctx: &RuleContext<'d>, method: &'d Node, first: &'d Node) {
    if method.entries().is_empty() {
        return;
    }
    let edits = ctx
        .root
        .get("install")
        .and_then(|list| edits::remove_item(ctx.doc, list, method));
    ctx.report(
        FindingDraft::new(
            &INSTALL_DUPLICATE,
            method,
            "duplicate install method",
        )
        .help(
            "remove one: hosts try the methods in order, and the second attempt fails like the first",
        )
        .nearby(first.span, "first here")
        .fix_if(Safety::Safe, "Remove the duplicate", edits),
    );
}
