//! The life of a session: mode, idle time, turns, and whether it can be resumed.

use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity};
use crate::shape::{self, Violation};
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
    checks: &[Check {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const BASE: Rule = Rule::aip45("Session model");

const FILE: &str = "AGENT-CLI.md";

pub static SESSION_MODE_ENUM: Rule = Rule {
    slug: "session-mode-enum",
    words: Some(mode_enum),
    title: "The session mode is not one that AIP-45 knows",
    decides: &["A45-SESS-01", "A45-FM-16"],
    fix: FixKind::Safe,
    what: "`session.mode` is `ephemeral`, `persistent` or `resumable`.",
    why: "The mode tells the host when it may end the process; a host cannot guess it.",
    bad: Example::over("quill", FILE, "session:\n  mode: Persistent\n"),
    good: Example::over("quill", FILE, "session:\n  mode: persistent\n"),
    ..BASE
};

pub static SESSION_IDLE_MIN: Rule = Rule {
    slug: "session-idle-min",
    words: Some(|ctx, v| ctx.report(idle_min(ctx, v.node))),
    title: "The idle timeout of the session is below one second",
    decides: &["A45-SESS-02"],
    fix: FixKind::Safe,
    what: "`session.idle_timeout_ms` is at least 1000.",
    why: "The value is in milliseconds; a smaller one ends sessions between two messages, and the schema refuses it.",
    bad: Example::over(
        "quill",
        FILE,
        "session:\n  mode: persistent\n  idle_timeout_ms: 600\n",
    ),
    good: Example::over(
        "quill",
        FILE,
        "session:\n  mode: persistent\n  idle_timeout_ms: 900000\n",
    ),
    ..BASE
};

pub static SESSION_MAX_TURNS_MIN: Rule = Rule {
    slug: "session-max-turns-min",
    words: Some(|ctx, v| ctx.report(max_turns(ctx, v.node))),
    title: "The session may have no turn at all",
    decides: &["A45-SESS-03"],
    fix: FixKind::Safe,
    what: "`session.max_turns` is at least 1.",
    why: "A session without turns is no session; one without a limit leaves the field out.",
    bad: Example::over(
        "gull",
        FILE,
        "session:\n  mode: ephemeral\n  max_turns: 0\n",
    ),
    good: Example::over(
        "gull",
        FILE,
        "session:\n  mode: ephemeral\n  max_turns: 1\n",
    ),
    ..BASE
};

pub static SESSION_RESUMABLE_CAP: Rule = Rule {
    slug: "session-resumable-cap",
    words: Some(resumable_cap),
    title: "Resumable sessions without the capability to resume",
    decides: &["A45-SESS-08"],
    scope: Scope::CrossField,
    what: "`session.mode: resumable` comes with `capabilities.resumable: true`.",
    why: "A session that outlives the process needs an agent that can load it; clients must refuse the claim otherwise.",
    bad: Example::over("quill", FILE, "session:\n  mode: resumable\n"),
    good: Example::over(
        "quill",
        FILE,
        "session:\n  mode: resumable\ncapabilities:\n  resumable: true\n",
    ),
    ..BASE
};

pub static SESSION_RESUMABLE_UNUSED: Rule = Rule {
    slug: "session-resumable-unused",
    title: "The agent can resume sessions, but the manifest never does",
    severity: Severity::Info,
    level: Level::May,
    decides: &["A45-CAP-07"],
    scope: Scope::CrossField,
    what: "Where `capabilities.resumable` is true, the session is resumable or `native-resume` is supported.",
    why: "The capability is there but no host will make use of it.",
    bad: Example::over(
        "quill",
        FILE,
        "capabilities:\n  streaming: true\n  resumable: true\n",
    ),
    good: Example::over(
        "quill",
        FILE,
        "session:\n  mode: resumable\ncapabilities:\n  streaming: true\n  resumable: true\n",
    ),
    ..BASE
};

pub static SESSION_EPHEMERAL_IDLE: Rule = Rule {
    slug: "session-ephemeral-idle",
    title: "An idle timeout for sessions that end with the connection",
    severity: Severity::Info,
    level: Level::Derived,
    scope: Scope::CrossField,
    what: "`session.idle_timeout_ms` is set for `persistent` and `resumable` sessions only.",
    why: "An ephemeral session is torn down at disconnect, so there is nothing left to time out.",
    bad: Example::over(
        "gull",
        FILE,
        "session:\n  mode: ephemeral\n  idle_timeout_ms: 600000\n",
    ),
    good: Example::over(
        "gull",
        FILE,
        "session:\n  mode: persistent\n  idle_timeout_ms: 600000\n",
    ),
    ..BASE
};

const MODES: [&str; 3] = ["ephemeral", "persistent", "resumable"];

fn mode_enum<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let mut draft = shape::draft(ctx, v);
    if let Some(meant) = v.node.as_str().and_then(|word| closest_of(word, MODES)) {
        draft = draft.fix_if(
            Safety::Safe,
            format!("Replace it by `{meant}`"),
            edits::set_scalar(ctx.doc, v.node, meant),
        );
    }
    ctx.report(draft);
}

fn idle_min<'d>(ctx: &Context<'d>, node: &'d Node) -> Draft<'d> {
    let value = ctx.doc.slice(node.span);
    let help = match node.as_int() {
        Some(seconds @ 1..) => format!(
            "the field counts milliseconds: {seconds} seconds are {}; the least is 1000",
            seconds.saturating_mul(1000)
        ),
        _ => "the field counts milliseconds, and the least is 1000".to_owned(),
    };
    Draft::new(
        &SESSION_IDLE_MIN,
        node,
        format!("`session.idle_timeout_ms` is {value}, less than one second"),
    )
    .help(help)
    .fix_if(
        Safety::Safe,
        "Raise it to 1000, the least that is allowed",
        edits::set_raw(ctx.doc, node, "1000"),
    )
}

fn max_turns<'d>(ctx: &Context<'d>, node: &'d Node) -> Draft<'d> {
    let value = ctx.doc.slice(node.span);
    let draft = Draft::new(
        &SESSION_MAX_TURNS_MIN,
        node,
        format!("`session.max_turns` is {value}, so not even one turn could be sent"),
    )
    .help("for no limit leave the field out; else give the number of turns");
    let Some(session) = ctx.root.entry("session") else {
        return draft;
    };
    let edits = match session.value.entries() {
        // The only key: an empty block would be left, so the block goes.
        [_] => edits::remove_entry(ctx.doc, ctx.root, session),
        entries => entries
            .iter()
            .find(|e| e.key == "max_turns")
            .and_then(|e| edits::remove_entry(ctx.doc, &session.value, e)),
    };
    draft.fix_if(Safety::Safe, "Remove it: no limit is the default", edits)
}

/// Reported at the mode, which is what asks for the capability.
fn resumable_cap<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let declared = ctx.root.entry_at(&["capabilities", "resumable"]);
    if declared.is_some_and(|e| e.value.as_bool().is_none()) {
        // Neither true nor false: `fm-type` speaks.
        return;
    }
    let Some(mode) = ctx.root.at(&["session", "mode"]) else {
        return ctx.report(shape::draft(ctx, v));
    };
    let mut draft = Draft::new(
        &SESSION_RESUMABLE_CAP,
        mode,
        "`session.mode: resumable` needs `capabilities.resumable: true`",
    )
    .help("declare the capability if the agent can load an earlier session; else use `persistent` or `ephemeral`");
    if let Some(entry) = declared {
        draft = draft.nearby(entry.span(), "declared as not resumable");
    } else if let Some(block) = ctx.root.entry("capabilities") {
        draft = draft.nearby(block.key_span, "`resumable` is not declared here");
    }
    ctx.report(draft);
}

fn check(ctx: &Context<'_>) {
    let session = ctx.root.get("session");
    let mode = session.and_then(|s| s.get("mode"));
    // No mode means `ephemeral`; a mode that is no mode has its own finding.
    let known = mode.is_none_or(|m| m.as_str().is_some_and(|m| MODES.contains(&m)));
    if !known {
        return;
    }
    let name = mode.and_then(Node::as_str).unwrap_or("ephemeral");
    if name == "ephemeral"
        && let Some(idle) = session.and_then(|s| s.entry("idle_timeout_ms"))
    {
        let mut draft = Draft::new(
            &SESSION_EPHEMERAL_IDLE,
            idle,
            "`idle_timeout_ms` has no effect: an ephemeral session ends with the connection",
        )
        .help("remove it, or make the session `persistent`");
        if let Some(mode) = mode {
            draft = draft.nearby(mode.span, "ephemeral");
        }
        ctx.report(draft);
    }
    if name != "resumable" {
        resumable_unused(ctx, mode);
    }
}

fn resumable_unused(ctx: &Context<'_>, mode: Option<&Node>) {
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
    let mut draft = Draft::new(
        &SESSION_RESUMABLE_UNUSED,
        flag,
        "the agent can resume sessions, but neither the session mode nor the continuation does",
    )
    .help("set `session.mode: resumable`, or list `native-resume` under `continuation.supported`");
    if let Some(mode) = mode {
        draft = draft.nearby(mode.span, "not resumable");
    }
    ctx.report(draft);
}
