//! The runtime is an agent CLI, but `ref` is missing.

use super::{AIP9, OPERATOR};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope};
use crate::shape::SchemaViolation;

pub static OP_REF_REQUIRED: Rule = Rule {
    slug: "op-ref-required",
    report: Some(ref_required),
    title: "The runtime is an agent CLI, but `ref` is missing",
    source: AIP9,
    doctypes: OPERATOR,
    scope: Scope::CrossField,
    docs: include_str!("op-ref-required.md"),
    ..Rule::BASE
};

fn ref_required<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let mut draft = FindingDraft::new(
        v.rule,
        v.location.clone(),
        "`kind: agent-cli` requires the field `ref`",
    )
    .help("add `ref` with the id or the path of an AGENT-CLI.md");
    if let Some(kind) = v.node.get("kind") {
        draft = draft.nearby(kind.span, "this kind requires `ref`");
    }
    ctx.report(draft);
}
