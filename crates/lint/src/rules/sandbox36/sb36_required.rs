//! The sandbox has no provider or no config.

use super::{BLOCKS, aip36, reported_elsewhere};
use crate::context::RuleContext;
use crate::rule::Rule;
use crate::shape::{SchemaViolation, draft};

pub static SB36_REQUIRED: Rule = Rule {
    slug: "sb36-required",
    report: Some(required_or_both),
    title: "The sandbox has no `provider` or no `config`",
    source: aip36("Required fields"),
    decides: &["A45-SBX-02"],
    doctypes: BLOCKS,
    docs: include_str!("sb36-required.md"),
    ..Rule::BASE
};

fn required_or_both<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    if !reported_elsewhere(ctx, v) {
        ctx.report(draft(ctx, v));
    }
}
