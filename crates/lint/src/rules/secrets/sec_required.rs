//! The declaration of a secret is incomplete.

use super::{SECRETS, aip19, said_elsewhere};
use crate::context::Context;
use crate::rule::Rule;
use crate::shape::{Violation, draft};

pub static SEC_REQUIRED: Rule = Rule {
    slug: "sec-required",
    words: Some(required),
    title: "The declaration of a secret is incomplete",
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
