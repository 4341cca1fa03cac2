//! The default is `native-resume`, but the agent is not resumable.

use super::{BASE, CONFORMANCE, point_at_capability, resumable};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope};
use crate::shape::{self, SchemaViolation};

pub static CONT_NATIVE_RESUME_CAP: Rule = Rule {
    slug: "cont-native-resume-cap",
    report: Some(native_resume_cap),
    title: "The default is `native-resume`, but the agent does not declare `resumable`",
    source: CONFORMANCE,
    decides: &["A45-CONF-14", "A45-CONT-09"],
    scope: Scope::CrossField,
    docs: include_str!("cont-native-resume-cap.md"),
    ..BASE
};

/// Reports the missing capability at `default`, which requires it.
fn native_resume_cap<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    if resumable(ctx).is_some_and(|e| e.value.as_bool().is_none()) {
        // Not a boolean: `fm-type` reports it.
        return;
    }
    let Some(default) = ctx.root.at(&["continuation", "default"]) else {
        return ctx.report(shape::draft(ctx, v));
    };
    let draft = FindingDraft::new(
        &CONT_NATIVE_RESUME_CAP,
        default,
        "`continuation.default: native-resume` requires `capabilities.resumable: true`",
    )
    .help("declare the capability if the agent can resume an earlier session; otherwise choose another default, such as `transcript`");
    ctx.report(point_at_capability(ctx, draft));
}
