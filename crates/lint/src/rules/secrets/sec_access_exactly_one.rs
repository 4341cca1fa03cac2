//! An access grant does not name exactly one grantee.

use super::{GRANTEES, SECRETS, aip19};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::Rule;
use crate::shape::{self, SchemaViolation};
use agentproto_manifest::Entry;

pub static SEC_ACCESS_EXACTLY_ONE: Rule = Rule {
    slug: "sec-access-exactly-one",
    report: Some(|ctx, v| ctx.report(grantees(ctx, v))),
    title: "An access grant does not name exactly one grantee",
    source: aip19("Access"),
    doctypes: SECRETS,
    docs: include_str!("sec-access-exactly-one.md"),
    ..Rule::BASE
};

fn grantees<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> FindingDraft<'d> {
    let named: Vec<&Entry> = v
        .node
        .entries()
        .iter()
        .filter(|e| GRANTEES.contains(&e.key.as_str()))
        .collect();
    match named.as_slice() {
        [first, rest @ ..] if !rest.is_empty() => {
            let mut draft = FindingDraft::new(
                v.rule,
                v.node,
                format!(
                    "a grant must have exactly one grantee, found {}",
                    named.len()
                ),
            )
            .help("write one list item for each grantee");
            for entry in std::iter::once(first).chain(rest) {
                draft = draft.nearby(entry.key_span, format!("`{}`", entry.key));
            }
            draft
        }
        _ => shape::draft(ctx, v),
    }
}
