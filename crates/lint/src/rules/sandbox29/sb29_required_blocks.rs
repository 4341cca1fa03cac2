//! The sandbox does not have all four required blocks.

use super::SANDBOX;
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::shape::{SchemaViolation, draft};
use agentproto_manifest::Doctype;

pub static REQUIRED_BLOCKS: Rule = Rule {
    slug: "sb29-required-blocks",
    report: Some(required_block),
    title: "The sandbox does not have all four required blocks",
    source: SANDBOX,
    decides: &["A29-REQ-11"],
    doctypes: &[Doctype::Cli],
    fix: FixKind::Safe,
    docs: include_str!("sb29-required-blocks.md"),
    ..Rule::BASE
};

fn required_block<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let Some(block) = violation.missing.as_deref() else {
        return ctx.report(draft(ctx, violation));
    };
    // The most restrictive value that the schema allows.
    let empty = if block == "exec" {
        "{allow: false}"
    } else {
        "{}"
    };
    let report = FindingDraft::new(
        &REQUIRED_BLOCKS,
        violation.location.clone(),
        format!("missing required block `{block}` in `sandbox`"),
    )
    .help(format!("add `{block}: {empty}` to grant nothing"))
    .fix_if(
        Safety::Safe,
        format!("Add `{block}: {empty}`"),
        edits::add_entry(ctx.doc, violation.node, block, empty),
    );
    ctx.report(report);
}
