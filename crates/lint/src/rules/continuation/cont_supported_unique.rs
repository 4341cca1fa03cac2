//! A continuation strategy is listed twice.

use super::BASE;
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::shape::{self, SchemaViolation};

pub static CONT_SUPPORTED_UNIQUE: Rule = Rule {
    slug: "cont-supported-unique",
    report: Some(|ctx, v| ctx.report(listed_twice(ctx, v))),
    title: "A continuation strategy is listed twice",
    decides: &["A45-CONT-02"],
    fix: FixKind::Safe,
    docs: include_str!("cont-supported-unique.md"),
    ..BASE
};

fn listed_twice<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> FindingDraft<'d> {
    let draft = shape::draft(ctx, v).help("remove one of them");
    let crate::context::Location::Value(item) = v.location else {
        return draft;
    };
    let edits = ctx
        .root
        .at(&["continuation", "supported"])
        .and_then(|list| edits::remove_item(ctx.doc, list, item));
    draft.fix_if(Safety::Safe, "Remove the duplicate", edits)
}
