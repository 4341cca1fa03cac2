//! Options on a prompt that is no choice.

use super::{BOTH, SETUP};
use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::{Entry, Node};

pub static SETUP_OPTIONS_NOT_SELECT: Rule = Rule {
    slug: "setup-options-not-select",
    title: "Options on a prompt that is no choice",
    severity: Severity::Warning,
    level: Level::May,
    source: SETUP,
    decides: &["A29-SETUP-06"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("setup-options-not-select.md"),
    ..Rule::BASE
};

pub(super) fn options_without_select<'d>(
    ctx: &Context<'d>,
    step: &'d Node,
    kind: &str,
    options: &'d Entry,
) {
    let declared = step.get("type");
    // Who lists options and gives no type wants a choice; who says another type does not.
    let (title, edits) = match declared {
        None => (
            "Make it a choice",
            edits::add_entry(ctx.doc, step, "type", "select"),
        ),
        Some(_) => (
            "Remove the options",
            edits::remove_entry(ctx.doc, step, options),
        ),
    };
    let draft = Draft::new(
        &SETUP_OPTIONS_NOT_SELECT,
        options,
        format!("a prompt of type `{kind}` has no use for `options`"),
    )
    .help("set `type: select`, or remove `options`")
    .fix_if(Safety::Safe, title, edits);
    ctx.report(match declared {
        Some(node) => draft.nearby(node.span, "the type"),
        None => draft,
    });
}
