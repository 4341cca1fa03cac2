//! A slug does not have the required form.

use super::{SECRETS, aip19};
use crate::context::FindingDraft;
use crate::rule::Rule;
use crate::rules::identity::id_problem;
use crate::shape::{Keyword, SchemaViolation};
use agentproto_text::truncate;

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
    let draft = |message: &str| FindingDraft::new(v.rule, v.location.clone(), message);
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
        "use 2 to 80 lower-case letters, digits and dashes; one group may precede the name: `group/name`"
            .to_owned()
    };
    let message = format!("the slug `{}` {}", truncate(text, 60), problem(text));
    draft(&message).help(help)
}

/// What is wrong with a slug, as the end of a sentence.
fn problem(slug: &str) -> String {
    let parts: Vec<&str> = slug.split('/').collect();
    let is_fine = |part: &&str| {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        part.len() > 1
            && part.bytes().all(legal)
            && part.starts_with(|c: char| c.is_ascii_lowercase())
            && !part.ends_with('-')
    };
    match (parts.as_slice(), parts.iter().find(|part| !is_fine(part))) {
        ([_, _, _, ..], _) => "has more than one group".to_owned(),
        ([_, _], Some(&"")) => "has an empty group or name".to_owned(),
        (_, Some(part)) => id_problem(part, ""),
        (_, None) => "does not have the required form".to_owned(),
    }
}
