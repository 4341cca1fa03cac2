//! A slug does not have the required form.

use super::{SECRETS, aip19};
use crate::context::FindingDraft;
use crate::rule::Rule;
use crate::shape::{Keyword, SchemaViolation};

pub static SEC_SLUG_PATTERN: Rule = Rule {
    slug: "sec-slug-pattern",
    report: Some(|ctx, v| ctx.report(slug_pattern(v))),
    title: "A slug does not have the required form",
    source: aip19("Slug naming"),
    doctypes: SECRETS,
    docs: include_str!("sec-slug-pattern.md"),
    ..Rule::BASE
};

fn slug_pattern<'d>(v: &SchemaViolation<'d>) -> FindingDraft<'d> {
    let draft = |message| FindingDraft::new(v.rule, v.location.clone(), message);
    if v.keyword == Keyword::MaxLength {
        return draft("the slug is longer than 80 characters").help("shorten it");
    }
    let text = v.node.as_str().unwrap_or_default();
    let near: String = text
        .trim()
        .to_ascii_lowercase()
        .chars()
        .map(|c| {
            if c == '_' || c == ' ' || c == '.' {
                '-'
            } else {
                c
            }
        })
        .collect();
    let is_plain = near.len() > 1
        && near.starts_with(|c: char| c.is_ascii_lowercase())
        && !near.ends_with('-')
        && near
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let help = if is_plain {
        format!("write `{near}`")
    } else {
        "use lower-case letters, digits and dashes, with at most one group: `group/name`".to_owned()
    };
    draft("the slug must consist of lower-case words separated by dashes").help(help)
}
