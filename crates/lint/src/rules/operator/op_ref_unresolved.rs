//! No agent has the id that the operator names.

use super::{AIP9, OPERATOR};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope};
use agentproto_manifest::{Doctype, Node};
use agentproto_text::{closest_of, one_of};

pub static OP_REF_UNRESOLVED: Rule = Rule {
    slug: "op-ref-unresolved",
    title: "No agent has the id that the operator names",
    source: AIP9,
    doctypes: OPERATOR,
    scope: Scope::Registry,
    docs: include_str!("op-ref-unresolved.md"),
    ..Rule::BASE
};

pub(super) fn unresolved<'d>(ctx: &RuleContext<'d>, node: &'d Node, slug: &str) {
    let entries = ctx.index.map_or(&[][..], |index| &index.entries);
    let agents = entries.iter().filter(|c| c.doctype == Doctype::AgentCli);
    let ids: Vec<&str> = agents
        .filter_map(|c| c.id.as_ref())
        .map(|id| id.text.as_str())
        .collect();
    // Without any agent manifest, the run covers a single file and not a registry.
    if ids.is_empty() {
        return;
    }
    let help = match closest_of(slug, ids.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if ids.len() <= 8 => format!("expected {}", one_of(&ids)),
        None => "use the `id` of an AGENT-CLI.md, or its path".to_owned(),
    };
    ctx.report(
        FindingDraft::new(
            &OP_REF_UNRESOLVED,
            node,
            format!("no AGENT-CLI.md among the linted files has the id `{slug}`"),
        )
        .help(help),
    );
}
