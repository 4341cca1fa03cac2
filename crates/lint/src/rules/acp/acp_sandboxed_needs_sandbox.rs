//! Rule `acp-sandboxed-needs-sandbox`: an endpoint of tier `sandboxed` has no `sandbox`.

use super::{ACP, aip44};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope};
use crate::shape::SchemaViolation;

pub static ACP_SANDBOXED_NEEDS_SANDBOX: Rule = Rule {
    slug: "acp-sandboxed-needs-sandbox",
    report: Some(needs_sandbox),
    title: "An endpoint of tier `sandboxed` has no `sandbox`",
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-04", "A44-FM-12"],
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-sandboxed-needs-sandbox.md"),
    ..Rule::BASE
};

fn needs_sandbox<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let mut draft = FindingDraft::new(
        v.rule,
        v.location.clone(),
        "tier `sandboxed` requires `sandbox`, which is missing",
    )
    .help("add `sandbox: ./SANDBOX.md` under `metadata.aip44`, or lower the tier");
    if let Some(tier) = v.node.get("tier") {
        draft = draft.nearby(tier.span, "the tier");
    }
    ctx.report(draft);
}
