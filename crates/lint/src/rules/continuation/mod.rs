//! Continuation: how the context of earlier turns reaches a later one.

mod cont_default_in_supported;
mod cont_idle_min;
mod cont_keyscope_enum;
mod cont_native_resume_cap;
mod cont_pinned_needs_persistent;
mod cont_recommended;
mod cont_strategy_enum;
mod cont_supported_native_resume_cap;
mod cont_supported_unique;
mod pinned_block;

use crate::context::{FindingDraft, RuleContext};
use crate::registry::{Family, FamilyCheck};
use crate::rule::{Rule, Source};
use agentproto_manifest::{Doctype, Entry, Node};

use cont_default_in_supported::{CONT_DEFAULT_IN_SUPPORTED, default_in_supported};
use cont_idle_min::CONT_IDLE_MIN;
use cont_keyscope_enum::CONT_KEYSCOPE_ENUM;
use cont_native_resume_cap::CONT_NATIVE_RESUME_CAP;
use cont_pinned_needs_persistent::{CONT_PINNED_NEEDS_PERSISTENT, check_pinned};
use cont_recommended::{CONT_RECOMMENDED, recommended};
use cont_strategy_enum::CONT_STRATEGY_ENUM;
use cont_supported_native_resume_cap::{CONT_SUPPORTED_NATIVE_RESUME_CAP, supported_native_resume};
use cont_supported_unique::CONT_SUPPORTED_UNIQUE;
use pinned_block::{
    CONT_KEYSCOPE_NO_CONVERSATION, CONT_PINNED_BLOCK_UNUSED, CONT_PINNED_IDLE_GT_SESSION,
    pinned_block,
};

pub static FAMILY: Family = Family {
    name: "continuation",
    rules: &[
        &CONT_RECOMMENDED,
        &CONT_DEFAULT_IN_SUPPORTED,
        &CONT_STRATEGY_ENUM,
        &CONT_SUPPORTED_UNIQUE,
        &CONT_KEYSCOPE_ENUM,
        &CONT_IDLE_MIN,
        &CONT_NATIVE_RESUME_CAP,
        &CONT_SUPPORTED_NATIVE_RESUME_CAP,
        &CONT_PINNED_NEEDS_PERSISTENT,
        &CONT_PINNED_BLOCK_UNUSED,
        &CONT_PINNED_IDLE_GT_SESSION,
        &CONT_KEYSCOPE_NO_CONVERSATION,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const BASE: Rule = Rule::aip45("Continuation");

const CONFORMANCE: Source = Source::aip45("Conformance");

const STRATEGIES: [&str; 4] = ["none", "pinned-session", "transcript", "native-resume"];

const PINNED: &str = "pinned-session";

const NATIVE: &str = "native-resume";

/// The entry `capabilities.resumable`.
fn resumable<'d>(ctx: &RuleContext<'d>) -> Option<&'d Entry> {
    ctx.root.entry_at(&["capabilities", "resumable"])
}

/// Adds a pointer to the flag, or to the block in which it is missing.
fn point_at_capability<'d>(ctx: &RuleContext<'d>, draft: FindingDraft<'d>) -> FindingDraft<'d> {
    if let Some(entry) = resumable(ctx) {
        draft.nearby(entry.span(), "declared as not resumable")
    } else if let Some(block) = ctx.root.entry("capabilities") {
        draft.nearby(block.key_span, "`resumable` is not declared here")
    } else {
        draft
    }
}

fn check(ctx: &RuleContext<'_>) {
    let Some(block) = ctx.root.get("continuation") else {
        return recommended(ctx);
    };
    let default = block.get("default");
    let selected = default.and_then(Node::as_str);
    let supported = block.get("supported");
    if let (Some(default), Some(list)) = (default, supported) {
        default_in_supported(ctx, default, list);
    }
    let listed = |strategy: &str| {
        let items = supported.map_or(&[][..], Node::items);
        items.iter().find(|item| item.as_str() == Some(strategy))
    };
    if selected != Some(NATIVE)
        && let Some(item) = listed(NATIVE)
    {
        supported_native_resume(ctx, item);
    }
    let pinned = default
        .filter(|d| d.as_str() == Some(PINNED))
        .or(listed(PINNED));
    if let Some(node) = pinned {
        check_pinned(ctx, node);
    }
    if let Some(entry) = block.entry("pinned_session") {
        pinned_block(ctx, block, entry, pinned.is_some());
    }
}
