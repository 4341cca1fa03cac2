//! Session settings: mode, idle timeout, turn limit, and whether it can be resumed.

use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Family, FamilyCheck};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use crate::shape::{self, SchemaViolation};
use agentproto_manifest::{Doctype, Node};
use agentproto_text::closest_of;

pub static FAMILY: Family = Family {
    name: "session",
    rules: &[
        &SESSION_MODE_ENUM,
        &SESSION_IDLE_MIN,
        &SESSION_MAX_TURNS_MIN,
        &SESSION_RESUMABLE_CAP,
        &SESSION_RESUMABLE_UNUSED,
        &SESSION_EPHEMERAL_IDLE,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const BASE: Rule = Rule::aip45("Session model");

pub static SESSION_MODE_ENUM: Rule = Rule {
    slug: "session-mode-enum",
    report: Some(mode_enum),
    title: "`session.mode` has a value that AIP-45 does not define",
    decides: &["A45-SESS-01", "A45-FM-16"],
    fix: FixKind::Safe,
    docs: include_str!("session/session-mode-enum.md"),
    ..BASE
};

pub static SESSION_IDLE_MIN: Rule = Rule {
    slug: "session-idle-min",
    report: Some(|ctx, v| ctx.report(idle_min(ctx, v.node))),
    title: "The idle timeout of the session is below one second",
    decides: &["A45-SESS-02"],
    fix: FixKind::Safe,
    docs: include_str!("session/session-idle-min.md"),
    ..BASE
};

pub static SESSION_MAX_TURNS_MIN: Rule = Rule {
    slug: "session-max-turns-min",
    report: Some(|ctx, v| ctx.report(max_turns(ctx, v.node))),
    title: "`session.max_turns` is below 1",
    decides: &["A45-SESS-03"],
    fix: FixKind::Safe,
    docs: include_str!("session/session-max-turns-min.md"),
    ..BASE
};

pub static SESSION_RESUMABLE_CAP: Rule = Rule {
    slug: "session-resumable-cap",
    report: Some(resumable_cap),
    title: "The session is resumable, but the agent does not declare `resumable`",
    decides: &["A45-SESS-08"],
    scope: Scope::CrossField,
    docs: include_str!("session/session-resumable-cap.md"),
    ..BASE
};

pub static SESSION_RESUMABLE_UNUSED: Rule = Rule {
    slug: "session-resumable-unused",
    title: "The agent can resume sessions, but the manifest does not use this",
    severity: Severity::Info,
    level: Level::May,
    decides: &["A45-CAP-07"],
    scope: Scope::CrossField,
    docs: include_str!("session/session-resumable-unused.md"),
    ..BASE
};

pub static SESSION_EPHEMERAL_IDLE: Rule = Rule {
    slug: "session-ephemeral-idle",
    title: "An ephemeral session has an idle timeout",
    severity: Severity::Info,
    level: Level::Derived,
    scope: Scope::CrossField,
    docs: include_str!("session/session-ephemeral-idle.md"),
    ..BASE
};

const MODES: [&str; 3] = ["ephemeral", "persistent", "resumable"];

fn mode_enum<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let mut draft = shape::draft(ctx, v);
    if let Some(meant) = v.node.as_str().and_then(|word| closest_of(word, MODES)) {
        draft = draft.fix_if(
            Safety::Safe,
            format!("Replace it with `{meant}`"),
            edits::set_scalar(ctx.doc, v.node, meant),
        );
    }
    ctx.report(draft);
}

fn idle_min<'d>(ctx: &RuleContext<'d>, node: &'d Node) -> FindingDraft<'d> {
    let value = ctx.doc.slice(node.span);
    let help = match node.as_int() {
        Some(seconds @ 1..) => format!(
            "the value is in milliseconds: {seconds} seconds are {}",
            seconds.saturating_mul(1000)
        ),
        _ => "the value is in milliseconds: one second is 1000".to_owned(),
    };
    FindingDraft::new(
        &SESSION_IDLE_MIN,
        node,
        format!("`session.idle_timeout_ms` must be at least 1000, found {value}"),
    )
    .help(help)
    .fix_if(
        Safety::Safe,
        "Raise it to 1000, the minimum",
        edits::set_raw(ctx.doc, node, "1000"),
    )
}

fn max_turns<'d>(ctx: &RuleContext<'d>, node: &'d Node) -> FindingDraft<'d> {
    let value = ctx.doc.slice(node.span);
    let draft = FindingDraft::new(
        &SESSION_MAX_TURNS_MIN,
        node,
        format!("`session.max_turns` must be at least 1, found {value}"),
    )
    .help("write the maximum number of turns, or remove the field for no limit");
    let Some(session) = ctx.root.entry("session") else {
        return draft;
    };
    let edits = match session.value.entries() {
        // If it is the only key, remove the whole block instead of leaving it empty.
        [_] => edits::remove_entry(ctx.doc, ctx.root, session),
        entries => entries
            .iter()
            .find(|e| e.key == "max_turns")
            .and_then(|e| edits::remove_entry(ctx.doc, &session.value, e)),
    };
    draft.fix_if(Safety::Safe, "Remove it: no limit is the default", edits)
}

/// Reports the missing capability at `mode`, which requires it.
fn resumable_cap<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let declared = ctx.root.entry_at(&["capabilities", "resumable"]);
    if declared.is_some_and(|e| e.value.as_bool().is_none()) {
        // Not a boolean: `fm-type` reports it.
        return;
    }
    let Some(mode) = ctx.root.at(&["session", "mode"]) else {
        return ctx.report(shape::draft(ctx, v));
    };
    let mut draft = FindingDraft::new(
        &SESSION_RESUMABLE_CAP,
        mode,
        "`session.mode: resumable` requires `capabilities.resumable: true`",
    )
    .help("declare the capability if the agent can load an earlier session; otherwise use `persistent` or `ephemeral`");
    if let Some(entry) = declared {
        draft = draft.nearby(entry.span(), "declared as not resumable");
    } else if let Some(block) = ctx.root.entry("capabilities") {
        draft = draft.nearby(block.key_span, "`resumable` is not declared here");
    }
    ctx.report(draft);
}

fn check(ctx: &RuleContext<'_>) {
    let session = ctx.root.get("session");
    let mode = session.and_then(|s| s.get("mode"));
    // The default mode is `ephemeral`. An invalid mode is reported by another rule.
    let known = mode.is_none_or(|m| m.as_str().is_some_and(|m| MODES.contains(&m)));
    if !known {
        return;
    }
    let name = mode.and_then(Node::as_str).unwrap_or("ephemeral");
    // Without a mode, hosts keep the session for further turns (AIP-46), and the limit applies.
    if mode.is_some()
        && name == "ephemeral"
        && let Some(idle) = session.and_then(|s| s.entry("idle_timeout_ms"))
    {
        let mut draft = FindingDraft::new(
            &SESSION_EPHEMERAL_IDLE,
            idle,
            "`idle_timeout_ms` has no effect: an ephemeral session ends with the connection",
        )
        .help("remove it, or set `session.mode: persistent`");
        if let Some(mode) = mode {
            draft = draft.nearby(mode.span, "the mode is ephemeral");
        }
        ctx.report(draft);
    }
    if name != "resumable" {
        resumable_unused(ctx, mode);
    }
}

fn resumable_unused(ctx: &RuleContext<'_>, mode: Option<&Node>) {
    let Some(flag) = ctx.root.at(&["capabilities", "resumable"]) else {
        return;
    };
    let native = |node: &Node| node.as_str() == Some("native-resume");
    let resumes = ctx.root.get("continuation").is_some_and(|c| {
        c.get("default").is_some_and(native)
            || c.get("supported")
                .is_some_and(|s| s.items().iter().any(native))
    });
    if !flag.is_true() || resumes {
        return;
    }
    let mut draft = FindingDraft::new(
        &SESSION_RESUMABLE_UNUSED,
        flag,
        "the agent can resume sessions, but neither the session mode nor the continuation uses this",
    )
    .help("set `session.mode: resumable`, or add `native-resume` to `continuation.supported`");
    if let Some(mode) = mode {
        draft = draft.nearby(mode.span, "not resumable");
    }
    ctx.report(draft);
}
