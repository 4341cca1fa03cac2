//! A tag contains characters other than lower-case letters, digits and dashes.

use super::spelling::kebab;
use super::{fits, pattern, with_fix};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::rule::{FixKind, Rule, Source};
use crate::shape::SchemaViolation;
use agentproto_manifest::{Doctype, Node};
use agentproto_text::truncate;

pub static TAG_PATTERN: Rule = Rule {
    slug: "tag-pattern",
    report: Some(bad_tag),
    title: "A tag contains characters other than lower-case letters, digits and dashes",
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-14"],
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Secrets,
        Doctype::Tool,
        Doctype::Operator,
    ],
    fix: FixKind::Safe,
    docs: include_str!("tag-pattern.md"),
    ..Rule::BASE
};

fn bad_tag<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let (node, pattern) = (violation.node, pattern(violation));
    let Some(tag) = node.as_str() else {
        return;
    };
    let problem = if tag.is_empty() {
        "is empty"
    } else if !tag.contains(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-') {
        "starts with an invalid character or is too long"
    } else {
        "contains characters other than lower-case letters, digits and dashes"
    };
    let message = format!("the tag `{}` {problem}", truncate(tag, 60));
    let draft = FindingDraft::new(&TAG_PATTERN, node, message);
    let Some(corrected) = kebab(tag, false).filter(|m| fits(pattern, m)) else {
        ctx.report(draft.help("use a short word such as `code-hosting`"));
        return;
    };
    // If the corrected tag is already listed, remove this one instead of creating a duplicate.
    let list = ctx.root.get("tags");
    let taken = list.map_or(&[][..], Node::items).iter().any(|other| {
        let before = other.span.start < node.span.start;
        other.as_str().is_some_and(|text| {
            text == corrected || (before && kebab(text, false).as_deref() == Some(&corrected))
        })
    });
    let (help, fix) = match list.filter(|_| taken) {
        Some(list) => (
            format!("remove it: `{corrected}` is already listed"),
            edits::remove_item(ctx.doc, list, node).map(|edits| {
                (
                    format!("Remove the tag; `{corrected}` is already listed"),
                    edits,
                )
            }),
        ),
        None => (
            format!("write `{corrected}`"),
            edits::set_scalar(ctx.doc, node, &corrected)
                .map(|edits| (format!("Change the tag to `{corrected}`"), edits)),
        ),
    };
    let draft = draft.help(help);
    ctx.report(with_fix(draft, fix));
}
