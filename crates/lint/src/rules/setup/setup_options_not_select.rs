//! Rule `setup-options-not-select`: a prompt of another type than `select` has `options`.

use super::{CLI_AND_AGENT_CLI, SETUP};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::{Entry, Node};

pub static SETUP_OPTIONS_NOT_SELECT: Rule = Rule {
    slug: "setup-options-not-select",
    title: "A prompt of another type than `select` has `options`",
    severity: Severity::Warning,
    level: Level::May,
    source: SETUP,
    decides: &["A29-SETUP-06"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("setup-options-not-select.md"),
    ..Rule::BASE
};

pub(super) fn options_without_select<'d>(
    ctx: &RuleContext<'d>,
    step: &'d Node,
    kind: &str,
    options: &'d Entry,
) {
    let declared = step.get("type");
    // Options without a type are meant as a `select`. With another type, the options are the
    // mistake.
    let (title, edits) = match declared {
        None => (
            "Set `type: select`",
            edits::add_entry(ctx.doc, step, "type", "select"),
        ),
        Some(_) => (
            "Remove `options`",
            edits::remove_entry(ctx.doc, step, options),
        ),
    };
    let draft = FindingDraft::new(
        &SETUP_OPTIONS_NOT_SELECT,
        options,
        format!("`options` has no effect on a prompt of type `{kind}`"),
    )
    .help("set `type: select`, or remove `options`")
    .fix_if(Safety::Safe, title, edits);
    ctx.report(match declared {
        Some(node) => draft.nearby(node.span, "the type"),
        None => draft,
    });
}
