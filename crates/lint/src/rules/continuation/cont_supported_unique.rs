//! A continuation strategy is listed twice.

use super::BASE;
use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::shape::{self, Violation};

pub static CONT_SUPPORTED_UNIQUE: Rule = Rule {
    slug: "cont-supported-unique",
    words: Some(|ctx, v| ctx.report(listed_twice(ctx, v))),
    title: "A continuation strategy is listed twice",
    decides: &["A45-CONT-02"],
    fix: FixKind::Safe,
    docs: include_str!("cont-supported-unique.md"),
    ..BASE
};

fn listed_twice<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> Draft<'d> {
    let draft = shape::draft(ctx, v).help("remove one of them");
    let crate::context::Place::Value(item) = v.place else {
        return draft;
    };
    let edits = ctx
        .root
        .at(&["continuation", "supported"])
        .and_then(|list| edits::remove_item(ctx.doc, list, item));
    draft.fix_if(Safety::Safe, "Remove the duplicate", edits)
}
