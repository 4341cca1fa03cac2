//! The manifest has an arm that its protocol does not use.

use super::{ARMS, BASE};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity, Source};

pub static PROTOCOL_ARM_EXTRA: Rule = Rule {
    slug: "protocol-arm-extra",
    title: "The manifest has an arm that its protocol does not use",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source::aip45("Adapter guide"),
    decides: &["A45-FM-13", "A45-FM-14", "A45-FM-15"],
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("protocol-arm-extra.md"),
    ..BASE
};

pub(super) fn arms(ctx: &RuleContext<'_>, protocol: Option<&str>) {
    let Some((protocol, own)) = ARMS.into_iter().find(|(p, _)| Some(*p) == protocol) else {
        return;
    };
    // If the arm of the protocol is missing, `protocol-arm-missing` reports the wrong arms.
    let Some(own_entry) = ctx.root.entry(own) else {
        return;
    };
    for (_, key) in ARMS.into_iter().filter(|(_, key)| *key != own) {
        if let Some(extra) = ctx.root.entry(key) {
            ctx.report(
                FindingDraft::new(
                    &PROTOCOL_ARM_EXTRA,
                    extra,
                    format!("`{key}` has no effect: `protocol: {protocol}` uses `{own}`"),
                )
                .help(format!(
                    "remove `{key}`, or write a separate manifest for that protocol"
                ))
                .nearby(own_entry.key_span, "the arm in use"),
            );
        }
    }
}
