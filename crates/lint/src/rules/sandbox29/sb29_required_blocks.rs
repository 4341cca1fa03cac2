//! The sandbox does not have all four required blocks.

use super::SANDBOX;
use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::shape::{Violation, draft};
use agentproto_manifest::Doctype;

pub static REQUIRED_BLOCKS: Rule = Rule {
    slug: "sb29-required-blocks",
    words: Some(required_block),
    title: "The sandbox does not have all four required blocks",
    source: SANDBOX,
    decides: &["A29-REQ-11"],
    doctypes: &[Doctype::Cli],
    fix: FixKind::Safe,
    docs: include_str!("sb29-required-blocks.md"),
    ..Rule::BASE
};

fn required_block<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let Some(block) = violation.missing.as_deref() else {
        return ctx.report(draft(ctx, violation));
    };
    // The most restrictive value that the schema allows.
    let empty = if block == "exec" {
        "{allow: false}"
    } else {
        "{}"
    };
    let report = Draft::new(
        &REQUIRED_BLOCKS,
        violation.place.clone(),
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
