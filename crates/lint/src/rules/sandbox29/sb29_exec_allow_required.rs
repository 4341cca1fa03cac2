//! `sandbox.exec` has no field `allow`.

use super::{BOTH, SANDBOX};
use crate::context::Context;
use crate::rule::Rule;
use crate::shape::{Violation, draft};

pub static EXEC_ALLOW_REQUIRED: Rule = Rule {
    slug: "sb29-exec-allow-required",
    words: Some(allow_required),
    title: "`sandbox.exec` has no field `allow`",
    source: SANDBOX,
    decides: &["A29-SBX-08"],
    doctypes: BOTH,
    docs: include_str!("sb29-exec-allow-required.md"),
    ..Rule::BASE
};

fn allow_required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(
        draft(ctx, v)
            .help("add `allow: false`, or add `allow: true` and list the programs in `spawn`"),
    );
}
