//! The manifest has no `continuation` block.

use super::{BASE, NATIVE, PINNED};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Severity};
use agentproto_manifest::{Node, Span};

pub static CONT_RECOMMENDED: Rule = Rule {
    slug: "cont-recommended",
    title: "The manifest has no `continuation` block",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-CONT-01"],
    fix: FixKind::Safe,
    docs: include_str!("cont-recommended.md"),
    ..BASE
};

pub(super) fn recommended(ctx: &RuleContext<'_>) {
    let open = ctx
        .doc
        .frontmatter
        .map_or(Span::default(), |front| front.open);
    let (default, others) = scaffold(ctx.root);
    let yaml = format!("\n  default: {default}\n  supported: [{default}, {others}]");
    ctx.report(
        FindingDraft::new(
            &CONT_RECOMMENDED,
            open,
            "missing recommended field `continuation`: hosts cannot tell how to pass on earlier turns",
        )
        .help(format!(
            "add `continuation` with `default: {default}`, and list every strategy that the agent supports in `supported`"
        ))
        .fix_if(
            Safety::Safe,
            format!("Add a `continuation` block with `{default}` as the default"),
            edits::add_entry(ctx.doc, ctx.root, "continuation", &yaml),
        ),
    );
}

/// The default strategy and the other strategies that fit the session and the capabilities.
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
