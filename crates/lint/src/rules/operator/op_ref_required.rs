//! The runtime is an agent CLI, but `ref` is missing.

use super::{AIP9, OPERATOR};
use crate::context::{Context, Draft};
use crate::rule::{Rule, Scope};
use crate::shape::Violation;

pub static OP_REF_REQUIRED: Rule = Rule {
    slug: "op-ref-required",
    words: Some(ref_required),
    title: "The runtime is an agent CLI, but `ref` is missing",
    source: AIP9,
    doctypes: OPERATOR,
    scope: Scope::CrossField,
    docs: include_str!("op-ref-required.md"),
    ..Rule::BASE
};

fn ref_required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let mut draft = Draft::new(
        v.rule,
        v.place.clone(),
        "`kind: agent-cli` requires the field `ref`",
    )
    .help("add `ref` with the id or the path of an AGENT-CLI.md");
    if let Some(kind) = v.node.get("kind") {
        draft = draft.nearby(kind.span, "this kind requires `ref`");
    }
    ctx.report(draft);
}
