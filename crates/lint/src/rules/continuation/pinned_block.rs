//! `cont-pinned-block-unused`, `cont-pinned-idle-gt-session`, `cont-keyscope-no-conversation`.

use super::{BASE, STRATEGIES};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::{Entry, Node};
use agentproto_text::closest_of;

pub static CONT_PINNED_BLOCK_UNUSED: Rule = Rule {
    slug: "cont-pinned-block-unused",
    title: "`pinned_session` is set, but the strategy is not supported",
    severity: Severity::Info,
    level: Level::May,
    decides: &["A45-CONT-12"],
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("cont-pinned-block-unused.md"),
    ..BASE
};

pub static CONT_PINNED_IDLE_GT_SESSION: Rule = Rule {
    slug: "cont-pinned-idle-gt-session",
    title: "The idle timeout of the pinned process is longer than that of its session",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossField,
    docs: include_str!("cont-pinned-idle-gt-session.md"),
    ..BASE
};

pub static CONT_KEYSCOPE_NO_CONVERSATION: Rule = Rule {
    slug: "cont-keyscope-no-conversation",
    title: "Conversations share one pinned process",
    severity: Severity::Warning,
    level: Level::Derived,
    docs: include_str!("cont-keyscope-no-conversation.md"),
    ..BASE
};

pub(super) fn pinned_block<'d>(
    ctx: &RuleContext<'d>,
    block: &'d Node,
    entry: &'d Entry,
    used: bool,
) {
    if !used {
        // A mistyped strategy may mean `pinned-session`.
        let strategies = block.get("supported").map_or(&[][..], Node::items).iter();
        let mistyped = strategies
            .chain(block.get("default"))
            .any(|s| s.as_str().is_none_or(|s| !STRATEGIES.contains(&s)));
        if !mistyped {
            ctx.report(
                FindingDraft::new(
                    &CONT_PINNED_BLOCK_UNUSED,
                    entry,
                    "`pinned_session` has no effect: `pinned-session` is not a supported strategy",
                )
                .help("remove the block, or add `pinned-session` to `supported`")
                .fix_if(
                    Safety::Safe,
                    "Remove `pinned_session`",
                    edits::remove_entry(ctx.doc, block, entry),
                ),
            );
        }
        return;
    }
    let pinned = &entry.value;
    let session_idle = ctx.root.at(&["session", "idle_timeout_ms"]);
    if let (Some(own), Some(outer)) = (pinned.get("idle_timeout_ms"), session_idle)
        && let (Some(a), Some(b)) = (own.as_int(), outer.as_int())
        && a > b
    {
        ctx.report(
            FindingDraft::new(
                &CONT_PINNED_IDLE_GT_SESSION,
                own,
                format!(
                    "the idle timeout of the pinned process is {a} ms, but its session ends after {b} ms"
                ),
            )
            .help(format!(
                "set it to {b} or less, or raise `session.idle_timeout_ms`"
            ))
            .nearby(outer.span, "idle timeout of the session"),
        );
    }
    if let Some(scope) = pinned.get("key_scope") {
        let items = scope.items();
        let may_be = |item: &Node| {
            item.as_str()
                .is_none_or(|text| closest_of(text, ["conversation"]).is_some())
        };
        if !items.is_empty() && !items.iter().any(may_be) {
            ctx.report(
                FindingDraft::new(
                    &CONT_KEYSCOPE_NO_CONVERSATION,
                    scope,
                    "`key_scope` does not contain `conversation`, so conversations share one process and its memory",
                )
                .help("add `conversation` to `key_scope`"),
            );
        }
    }
}
