//! Rule `option-id-pattern`: the id of an option contains characters that are not allowed.

use super::BASE;
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule, Scope, Source};
use crate::rules::modes::{fix_id, has_id};
use agentproto_manifest::Node;

pub static OPTION_ID_PATTERN: Rule = Rule {
    slug: "option-id-pattern",
    report: Some(|ctx, v| ctx.report(id_pattern(ctx, v.node))),
    title: "The id of an option contains characters that are not allowed",
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-10"],
    scope: Scope::Field,
    fix: FixKind::Safe,
    docs: include_str!("option-id-pattern.md"),
    ..BASE
};

fn id_pattern<'d>(ctx: &RuleContext<'d>, node: &'d Node) -> FindingDraft<'d> {
    let draft = FindingDraft::new(
        &OPTION_ID_PATTERN,
        node,
        "the id of an option must contain only lower-case letters, digits and `_`, and start with a letter or digit",
    );
    let Some(fixed) = node.as_str().and_then(|text| fix_id(text, '_')) else {
        return draft.help("choose another id, for example `max_turns`");
    };
    let taken = ctx
        .root
        .get("options")
        .is_some_and(|list| has_id(list, &fixed));
    if taken {
        return draft.help("choose an id that no other option has");
    }
    let edits = edits::set_scalar(ctx.doc, node, &fixed);
    draft.help(format!("write `{fixed}`")).fix_if(
        Safety::Safe,
        format!("Replace it with `{fixed}`"),
        edits,
    )
}
