//! The id does not have the required form.

use super::spelling::mended_id;
use super::{pattern, with_fix};
use crate::context::{Context, Draft};
use crate::edits;
use crate::rule::{FixKind, Rule, Source};
use crate::shape::Violation;
use agentproto_manifest::Doctype;
use agentproto_text::short;

pub static ID_PATTERN: Rule = Rule {
    slug: "id-pattern",
    words: Some(bad_id),
    title: "The id does not have the required form",
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-02", "A44-FM-02", "A45-FM-02"],
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Sandbox,
        Doctype::Tool,
        Doctype::Operator,
    ],
    fix: FixKind::Safe,
    docs: include_str!("id-pattern.md"),
    ..Rule::BASE
};

fn bad_id<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let Some(id) = violation.node.as_str() else {
        return;
    };
    let pattern = pattern(violation);
    let scoped = pattern.starts_with("^@");
    let message = format!("the id `{}` {}", short(id, 60), id_trouble(id, pattern));
    let mended = mended_id(id, pattern);
    let help = match &mended {
        Some(mended) => format!("write `{mended}`"),
        None if scoped => "write `@owner/slug` in lower case, for example `@acme/build-box`".to_owned(),
        None => "use two or more lower-case letters, digits and dashes, starting with a letter, for example `my-tool`".to_owned(),
    };
    let fix = mended.and_then(|mended| {
        let edits = edits::set_scalar(ctx.doc, violation.node, &mended)?;
        Some((format!("Change the id to `{mended}`"), edits))
    });
    let draft = Draft::new(&ID_PATTERN, violation.node, message).help(help);
    ctx.report(with_fix(draft, fix));
}

fn id_trouble(id: &str, pattern: &str) -> &'static str {
    let edges = |c: char| c == '-' || c == '.';
    // Only the id of a tool may contain dots.
    let dots = pattern.contains("0-9.");
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if id.is_empty() {
        "is empty"
    } else if pattern.starts_with("^@") {
        "does not have the form `@owner/slug`"
    } else if id.contains(|c: char| c.is_ascii_uppercase()) {
        "contains upper-case letters"
    } else if id.contains(char::is_whitespace) {
        "contains white space"
    } else if id.contains('_') {
        "contains an underscore; use dashes"
    } else if !id.chars().all(|c| legal(c) || (dots && c == '.')) {
        "contains characters other than lower-case letters, digits and dashes"
    } else if id.starts_with(edges) || id.ends_with(edges) {
        "starts or ends with a dash or a dot"
    } else if id.len() < 2 {
        "is too short"
    } else if id.starts_with(|c: char| c.is_ascii_digit()) && !pattern.starts_with("^[a-z0-9]") {
        "starts with a digit"
    } else {
        "is too long"
    }
}
