//! Continuation: how a later turn finds the earlier ones.

mod catalog;

pub use catalog::*;

use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::shape::{self, Violation};
use agentproto_manifest::{Doctype, Entry, Node, Span};
use agentproto_text::closest_of;

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
    checks: &[Check {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const STRATEGIES: [&str; 4] = ["none", "pinned-session", "transcript", "native-resume"];
const PINNED: &str = "pinned-session";
const NATIVE: &str = "native-resume";

fn idle_min<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let value = ctx.doc.slice(v.node.span);
    ctx.report(
        Draft::new(
            &CONT_IDLE_MIN,
            v.node,
            format!("`pinned_session.idle_timeout_ms` is {value}, less than one second"),
        )
        .help("the field counts milliseconds; the least is 1000, and half an hour is 1800000"),
    );
}

fn listed_twice<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> Draft<'d> {
    let draft = shape::draft(ctx, v).help("remove one of them");
    let crate::context::Place::Value(item) = v.place else {
        return draft;
    };
    let edits = ctx
        .root
        .at(&["continuation", "supported"])
        .and_then(|list| edits::remove_item(ctx.doc, list, item));
    draft.fix_if(Safety::Safe, "Remove the second one", edits)
}

/// `capabilities.resumable` as declared.
fn resumable<'d>(ctx: &Context<'d>) -> Option<&'d Entry> {
    ctx.root.entry_at(&["capabilities", "resumable"])
}

/// Points at the flag, or at the block that lacks it.
fn beside_capability<'d>(ctx: &Context<'d>, draft: Draft<'d>) -> Draft<'d> {
    if let Some(entry) = resumable(ctx) {
        draft.nearby(entry.span(), "declared as not resumable")
    } else if let Some(block) = ctx.root.entry("capabilities") {
        draft.nearby(block.key_span, "`resumable` is not declared here")
    } else {
        draft
    }
}

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

fn check(ctx: &Context<'_>) {
    let Some(block) = ctx.root.get("continuation") else {
        return recommended(ctx);
    };
    let default = block.get("default");
    let chosen = default.and_then(Node::as_str);
    let supported = block.get("supported");
    if let (Some(default), Some(list)) = (default, supported) {
        default_in_supported(ctx, default, list);
    }
    let listed = |strategy: &str| {
        let items = supported.map_or(&[][..], Node::items);
        items.iter().find(|item| item.as_str() == Some(strategy))
    };
    if chosen != Some(NATIVE)
        && let Some(item) = listed(NATIVE)
    {
        supported_native_resume(ctx, item);
    }
    let pinned = default
        .filter(|d| d.as_str() == Some(PINNED))
        .or(listed(PINNED));
    if let Some(node) = pinned {
        pinned_fits(ctx, node);
    }
    if let Some(entry) = block.entry("pinned_session") {
        pinned_block(ctx, block, entry, pinned.is_some());
    }
}

fn recommended(ctx: &Context<'_>) {
    let open = ctx.doc.front.map_or(Span::default(), |front| front.open);
    let (default, others) = scaffold(ctx.root);
    let yaml = format!("\n  default: {default}\n  supported: [{default}, {others}]");
    ctx.report(
        Draft::new(
            &CONT_RECOMMENDED,
            open,
            "the manifest does not say how earlier turns reach the agent (`continuation`)",
        )
        .help(format!(
            "for this agent `default: {default}` fits; list what else works under `supported`"
        ))
        .fix_if(
            Safety::Safe,
            format!("Add a `continuation` block with `{default}` as the default"),
            edits::add_entry(ctx.doc, ctx.root, "continuation", &yaml),
        ),
    );
}

/// The default strategy, and the others, that session and capabilities allow.
fn scaffold(root: &Node) -> (&'static str, &'static str) {
    let resumes = root
        .at(&["capabilities", "resumable"])
        .is_some_and(Node::is_true);
    let mode = root.str_at(&["session", "mode"]);
    let forgets = root
        .at(&["session", "context_carryover"])
        .and_then(Node::as_bool)
        == Some(false);
    match mode {
        Some("persistent") if !forgets && resumes => (PINNED, "native-resume, transcript, none"),
        Some("persistent") if !forgets => (PINNED, "transcript, none"),
        _ if resumes => (NATIVE, "transcript, none"),
        _ => ("transcript", "none"),
    }
}

fn default_in_supported<'d>(ctx: &Context<'d>, default: &'d Node, list: &'d Node) {
    let Some(name) = default.as_str().filter(|d| STRATEGIES.contains(d)) else {
        return;
    };
    let items = list.items();
    // A mistyped item may be the default; then only the typo is wrong.
    let may_be = |item: &Node| match item.as_str() {
        Some(text) => {
            text == name
                || (!STRATEGIES.contains(&text) && closest_of(text, STRATEGIES) == Some(name))
        }
        None => true,
    };
    if items.is_empty() || items.iter().any(may_be) {
        return;
    }
    ctx.report(
        Draft::new(
            &CONT_DEFAULT_IN_SUPPORTED,
            default,
            format!("the default `{name}` is not in `continuation.supported`, so a host must refuse to use it"),
        )
        .help(format!("add `{name}` to `supported`, or choose a default from there"))
        .nearby(list.span, "the supported strategies")
        .fix_if(
            Safety::Safe,
            format!("Add `{name}` to `supported`"),
            edits::append_item(ctx.doc, list, name),
        ),
    );
}

fn supported_native_resume<'d>(ctx: &Context<'d>, item: &'d Node) {
    let flag = resumable(ctx).map(|e| &e.value);
    if flag.is_some_and(|node| node.as_bool() != Some(false)) {
        return;
    }
    let draft = Draft::new(
        &CONT_SUPPORTED_NATIVE_RESUME_CAP,
        item,
        "`native-resume` is offered, but the agent does not declare `capabilities.resumable: true`",
    )
    .help("declare the capability if it is there; else remove `native-resume` from the list");
    ctx.report(beside_capability(ctx, draft));
}

/// A pinned child keeps context only if sessions outlive a turn and carry it over.
fn pinned_fits<'d>(ctx: &Context<'d>, node: &'d Node) {
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
            "`pinned-session` lives off the context that the process keeps, but the session carries none over",
            Some(entry.span()),
        ),
        _ => return,
    };
    let mut draft = Draft::new(&CONT_PINNED_NEEDS_PERSISTENT, node, message).help(
        "declare `session.mode: persistent` and `context_carryover: true`, or use `transcript`",
    );
    if let Some(span) = place {
        draft = draft.nearby(span, "declared here");
    }
    ctx.report(draft);
}

fn pinned_block<'d>(ctx: &Context<'d>, block: &'d Node, entry: &'d Entry, used: bool) {
    if !used {
        // A mistyped strategy may have meant this one.
        let strategies = block.get("supported").map_or(&[][..], Node::items).iter();
        let mistyped = strategies
            .chain(block.get("default"))
            .any(|s| s.as_str().is_none_or(|s| !STRATEGIES.contains(&s)));
        if !mistyped {
            ctx.report(
                Draft::new(
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
            Draft::new(
                &CONT_PINNED_IDLE_GT_SESSION,
                own,
                format!(
                    "the pinned process may idle for {a} ms, but its session ends after {b} ms"
                ),
            )
            .help("the shorter time wins; make this one the shorter or the same")
            .nearby(outer.span, "the session's idle time"),
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
                Draft::new(
                    &CONT_KEYSCOPE_NO_CONVERSATION,
                    scope,
                    "the key has no `conversation`, so two conversations share one process and its memory",
                )
                .help("add `conversation` to `key_scope`"),
            );
        }
    }
}
