//! The declaration of a secret is incomplete.

use super::{SECRETS, aip19, reported_elsewhere};
use crate::context::RuleContext;
use crate::rule::Rule;
use crate::shape::{SchemaViolation, draft};

pub static SEC_REQUIRED: Rule = Rule {
    slug: "sec-required",
    report: Some(required),
    title: "The declaration of a secret is incomplete",
    source: aip19("Frontmatter"),
    decides: &["A29-AUTH-01"],
    doctypes: SECRETS,
    docs: include_str!("sec-required.md"),
    ..Rule::BASE
};

fn required<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    if !reported_elsewhere(ctx, v) {
        ctx.report(draft(ctx, v));
    }
}
