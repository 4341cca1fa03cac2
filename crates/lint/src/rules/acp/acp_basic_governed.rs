//! Rule `acp-basic-governed`: an endpoint of tier `basic` is bound to governance.

use super::{ACP, aip44};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope, Severity};
use agentproto_manifest::{Node, RefRole};

pub static ACP_BASIC_GOVERNED: Rule = Rule {
    slug: "acp-basic-governed",
    title: "An endpoint of tier `basic` is bound to governance",
    severity: Severity::Warning,
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-03"],
    doctypes: ACP,
    scope: Scope::CrossFile,
    docs: include_str!("acp-basic-governed.md"),
    ..Rule::BASE
};

pub(super) fn basic_governed<'d>(ctx: &RuleContext<'d>, aip44: &'d Node, tier: &'d Node) {
    let draft = FindingDraft::new(
        &ACP_BASIC_GOVERNED,
        tier,
        "this endpoint is bound to governance, which tier `basic` does not support",
    )
    .help("declare tier `governance-aware`, with `loadSession` and streamed tool calls");
    if let Some(governance) = aip44.entry("governance") {
        ctx.report(draft.nearby(governance.span(), "governance is bound here"));
    } else if aip44.has("operator")
        && let Some((_, operator)) = ctx.bound(RefRole::Operator)
        && let Some(entry) = operator.root.as_ref().and_then(|r| r.entry("governance"))
    {
        ctx.report(draft.related(operator, entry.key_span, "the operator is governed"));
    }
}
