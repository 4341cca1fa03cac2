//! A secret is not fully declared.

use super::{SECRETS, aip19, said_elsewhere};
use crate::context::Context;
use crate::rule::Rule;
use crate::shape::{Violation, draft};

pub static SEC_REQUIRED: Rule = Rule {
    slug: "sec-required",
    words: Some(required),
    title: "A secret is not fully declared",
    source: aip19("Frontmatter"),
    decides: &["A29-AUTH-01"],
    doctypes: SECRETS,
    docs: include_str!("sec-required.md"),
    ..Rule::BASE
};

fn required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    if !said_elsewhere(ctx, v) {
        ctx.report(draft(ctx, v));
    }
}
