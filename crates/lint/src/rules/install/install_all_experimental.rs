//! Rule `install-all-experimental`: every install method is marked experimental.

use super::{CLI_AND_AGENT_CLI, METHODS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::{Entry, Node};

pub static INSTALL_ALL_EXPERIMENTAL: Rule = Rule {
    slug: "install-all-experimental",
    title: "Every install method is marked experimental",
    severity: Severity::Warning,
    level: Level::Should,
    source: METHODS,
    decides: &["A29-INSTALL-21"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("install-all-experimental.md"),
    ..Rule::BASE
};

pub(super) fn all_experimental<'d>(ctx: &RuleContext<'d>, entry: &'d Entry, methods: &[Node]) {
    let experimental = |method: &Node| method.get("experimental").is_some_and(Node::is_true);
    if !methods.is_empty() && methods.iter().all(experimental) {
        ctx.report(
            FindingDraft::new(
                &INSTALL_ALL_EXPERIMENTAL,
                entry,
                "every install method is experimental, and hosts skip experimental methods",
            )
            .help("add a method that is not marked `experimental`"),
        );
    }
}
