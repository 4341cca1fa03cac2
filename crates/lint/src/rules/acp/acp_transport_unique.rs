//! Rule `acp-transport-unique`: `transport` contains a duplicate item.

use super::{ACP, aip44};
use crate::context::{Location, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::shape::{self, SchemaViolation};

pub static ACP_TRANSPORT_UNIQUE: Rule = Rule {
    slug: "acp-transport-unique",
    report: Some(repeated_transport),
    title: "`transport` contains a duplicate item",
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-06"],
    doctypes: ACP,
    fix: FixKind::Safe,
    docs: include_str!("acp-transport-unique.md"),
    ..Rule::BASE
};

fn repeated_transport<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let draft = shape::draft(ctx, v);
    let Location::Value(item) = &v.location else {
        return ctx.report(draft);
    };
    let edits = ctx
        .root
        .get("transport")
        .and_then(|list| edits::remove_item(ctx.doc, list, item));
    ctx.report(draft.fix_if(Safety::Safe, "Remove the duplicate transport", edits));
}
