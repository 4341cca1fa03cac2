//! A tag is listed twice.

use super::with_fix;
use crate::context::{Context, Draft, Place};
use crate::edits;
use crate::rule::{FixKind, Rule, Scope, Source};
use crate::shape::Violation;
use agentproto_manifest::Doctype;
use agentproto_text::short;

pub static TAGS_UNIQUE: Rule = Rule {
    slug: "tags-unique",
    words: Some(double_tag),
    title: "A tag is listed twice",
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-14"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli, Doctype::Acp, Doctype::Tool],
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("tags-unique.md"),
    ..Rule::BASE
};

fn double_tag<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let first = violation.node;
    let (Place::Value(again), Some(tag)) = (&violation.place, first.as_str()) else {
        return;
    };
    let fix = ctx
        .root
        .get("tags")
        .and_then(|list| edits::remove_item(ctx.doc, list, again))
        .map(|edits| (format!("Remove the second `{}`", short(tag, 40)), edits));
    let message = format!("duplicate tag `{}`", short(tag, 60));
    let draft = Draft::new(&TAGS_UNIQUE, *again, message)
        .help("remove one of them")
        .nearby(first.span, "first here");
    ctx.report(with_fix(draft, fix));
}
