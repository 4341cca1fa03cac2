//! `native-resume` is supported, but the agent is not resumable.

use super::{BASE, point_at_capability, resumable};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static CONT_SUPPORTED_NATIVE_RESUME_CAP: Rule = Rule {
    slug: "cont-supported-native-resume-cap",
    title: "`native-resume` is supported, but the agent does not declare `resumable`",
    severity: Severity::Warning,
    level: Level::Must,
    decides: &["A45-CONT-09"],
    scope: Scope::CrossField,
    docs: include_str!("cont-supported-native-resume-cap.md"),
    ..BASE
};

pub(super) fn supported_native_resume<'d>(ctx: &RuleContext<'d>, item: &'d Node) {
    let flag = resumable(ctx).map(|e| &e.value);
    if flag.is_some_and(|node| node.as_bool() != Some(false)) {
        return;
    }
    let draft = FindingDraft::new(
        &CONT_SUPPORTED_NATIVE_RESUME_CAP,
        item,
        "`native-resume` is supported, but the agent does not declare `capabilities.resumable: true`",
    )
    .help("declare the capability if the agent has it; otherwise remove `native-resume` from the list");
    ctx.report(point_at_capability(ctx, draft));
}
