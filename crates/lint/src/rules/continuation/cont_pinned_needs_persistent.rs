//! `pinned-session` is used with a session that keeps no context.

use super::BASE;
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static CONT_PINNED_NEEDS_PERSISTENT: Rule = Rule {
    slug: "cont-pinned-needs-persistent",
    title: "`pinned-session` is used with a session that keeps no context",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-CONT-06"],
    scope: Scope::CrossField,
    docs: include_str!("cont-pinned-needs-persistent.md"),
    ..BASE
};

/// A pinned process keeps context only if the session outlives a turn and carries context over.
pub(super) fn check_pinned<'d>(ctx: &RuleContext<'d>, node: &'d Node) {
    let session = ctx.root.get("session");
    let mode = session.and_then(|s| s.get("mode"));
    let name = mode.map_or(Some("ephemeral"), Node::as_str);
    let carry = session.and_then(|s| s.entry("context_carryover"));
    let forgets = carry.filter(|e| e.value.as_bool() == Some(false));
    let (message, place) = match (name, forgets) {
        (Some("ephemeral"), _) => (
            "`pinned-session` keeps the process alive between turns, but the session is ephemeral",
            mode.map(|m| m.span),
        ),
        (_, Some(entry)) => (
            "`pinned-session` uses the context that the process keeps, but the session does not carry it over",
            Some(entry.span()),
        ),
        _ => return,
    };
    let mut draft = FindingDraft::new(&CONT_PINNED_NEEDS_PERSISTENT, node, message)
        .help("set `session.mode: persistent` and `context_carryover: true`, or use `transcript`");
    if let Some(span) = place {
        draft = draft.nearby(span, "declared here");
    }
    ctx.report(draft);
}
