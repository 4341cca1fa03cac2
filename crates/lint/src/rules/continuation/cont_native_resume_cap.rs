//! Native resume by default without the capability to resume.

use super::{BASE, CONFORMANCE, beside_capability, resumable};
use crate::context::{Context, Draft};
use crate::rule::{Rule, Scope};
use crate::shape::{self, Violation};

pub static CONT_NATIVE_RESUME_CAP: Rule = Rule {
    slug: "cont-native-resume-cap",
    words: Some(native_resume_cap),
    title: "Native resume by default without the capability to resume",
    source: CONFORMANCE,
    decides: &["A45-CONF-14", "A45-CONT-09"],
    scope: Scope::CrossField,
    docs: include_str!("cont-native-resume-cap.md"),
    ..BASE
};

/// Reported at the default, which is what asks for the capability.
fn native_resume_cap<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    if resumable(ctx).is_some_and(|e| e.value.as_bool().is_none()) {
        // Neither true nor false: `fm-type` speaks.
        return;
    }
    let Some(default) = ctx.root.at(&["continuation", "default"]) else {
        return ctx.report(shape::draft(ctx, v));
    };
    let draft = Draft::new(
        &CONT_NATIVE_RESUME_CAP,
        default,
        "a default of `native-resume` needs `capabilities.resumable: true`",
    )
    .help("declare the capability if the agent can take up an earlier session; else choose another default, such as `transcript`");
    ctx.report(beside_capability(ctx, draft));
}
