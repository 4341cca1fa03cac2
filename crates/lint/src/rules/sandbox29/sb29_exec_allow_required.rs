//! `sandbox.exec` has no field `allow`.

use super::{BOTH, SANDBOX};
use crate::context::RuleContext;
use crate::rule::Rule;
use crate::shape::{SchemaViolation, draft};

pub static EXEC_ALLOW_REQUIRED: Rule = Rule {
    slug: "sb29-exec-allow-required",
    report: Some(allow_required),
    title: "`sandbox.exec` has no field `allow`",
    source: SANDBOX,
    decides: &["A29-SBX-08"],
    doctypes: BOTH,
    docs: include_str!("sb29-exec-allow-required.md"),
    ..Rule::BASE
};

fn allow_required<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    ctx.report(
        draft(ctx, v)
            .help("add `allow: false`, or add `allow: true` and list the programs in `spawn`"),
    );
}
