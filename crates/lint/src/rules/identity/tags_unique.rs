//! A tag is listed twice.

use super::with_fix;
use crate::context::{FindingDraft, Location, RuleContext};
use crate::edits;
use crate::rule::{FixKind, Rule, Scope, Source};
use crate::shape::SchemaViolation;
use agentproto_manifest::Doctype;
use agentproto_text::truncate;

pub static TAGS_UNIQUE: Rule = Rule {
    slug: "tags-unique",
    report: Some(duplicate_tag),
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

fn duplicate_tag<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let first = violation.node;
    let (Location::Value(again), Some(tag)) = (&violation.location, first.as_str()) else {
        return;
    };
    let fix = ctx
        .root
        .get("tags")
        .and_then(|list| edits::remove_item(ctx.doc, list, again))
        .map(|edits| (format!("Remove the second `{}`", truncate(tag, 40)), edits));
    let message = format!("duplicate tag `{}`", truncate(tag, 60));
    let draft = FindingDraft::new(&TAGS_UNIQUE, *again, message)
        .help("remove one of them")
        .nearby(first.span, "first here");
    ctx.report(with_fix(draft, fix));
}
