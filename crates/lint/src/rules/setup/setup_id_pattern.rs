//! Rule `setup-id-pattern`: the id of a step contains characters that are not allowed.

use super::{CLI_AND_AGENT_CLI, SETUP, slug};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::shape::SchemaViolation;
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static SETUP_ID_PATTERN: Rule = Rule {
    slug: "setup-id-pattern",
    report: Some(id_pattern),
    title: "The id of a step contains characters that are not allowed",
    source: SETUP,
    decides: &["A29-SETUP-11"],
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Safe,
    docs: include_str!("setup-id-pattern.md"),
    ..Rule::BASE
};

fn id_pattern<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let id = v.node.as_str().unwrap_or("");
    let draft = FindingDraft::new(
        v.rule,
        v.location.clone(),
        format!("`{}` is not a valid step id", truncate(id, 64)),
    );
    let meant = slug(id);
    let steps = ctx.root.get("setup").map_or(&[][..], Node::items);
    let taken = steps.iter().any(|s| s.str_at(&["id"]) == Some(&meant));
    if meant.is_empty() || taken {
        ctx.report(draft.help(
            "use at most 64 lower-case letters, digits and `-`, and start with a letter or digit",
        ));
        return;
    }
    // Renaming would break references to the old name.
    let used = ctx.doc.text.contains(&format!("${{input.{id}}}"));
    let edits = (!used).then(|| edits::set_scalar(ctx.doc, v.node, &meant));
    ctx.report(draft.help(format!("write `{meant}`")).fix_if(
        Safety::Safe,
        format!("Rename the step to `{meant}`"),
        edits.flatten(),
    ));
}
