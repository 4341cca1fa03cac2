//! The id does not have the required form.

use super::spelling::corrected_id;
use super::{pattern, with_fix};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::rule::{FixKind, Rule, Source};
use crate::shape::SchemaViolation;
use agentproto_manifest::Doctype;
use agentproto_text::truncate;

pub static ID_PATTERN: Rule = Rule {
    slug: "id-pattern",
    report: Some(bad_id),
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

fn bad_id<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let Some(id) = violation.node.as_str() else {
        return;
    };
    let pattern = pattern(violation);
    let scoped = pattern.starts_with("^@");
    let message = format!("the id `{}` {}", truncate(id, 60), id_problem(id, pattern));
    let corrected = corrected_id(id, pattern);
    let help = match &corrected {
        Some(corrected) => format!("write `{corrected}`"),
        None if scoped => {
            "write `@owner/slug` in lower case, for example `@acme/build-box`".to_owned()
        }
        None => id_form(pattern),
    };
    let fix = corrected.and_then(|corrected| {
        let edits = edits::set_scalar(ctx.doc, violation.node, &corrected)?;
        Some((format!("Change the id to `{corrected}`"), edits))
    });
    let draft = FindingDraft::new(&ID_PATTERN, violation.node, message).help(help);
    ctx.report(with_fix(draft, fix));
}

/// The form that a pattern requires, as help.
fn id_form(pattern: &str) -> String {
    let (most, characters) = match has_dots(pattern) {
        true => (80, "lower-case letters, digits, dashes and dots"),
        false => (64, "lower-case letters, digits and dashes"),
    };
    let start = match starts_with_letter(pattern) {
        true => ", starting with a letter",
        false => "",
    };
    format!("use 2 to {most} {characters}{start}, for example `my-tool`")
}

/// Only the id of a tool may contain dots.
fn has_dots(pattern: &str) -> bool {
    pattern.contains("0-9.")
}

/// Only the id of an operator must not start with a digit.
fn starts_with_letter(pattern: &str) -> bool {
    !pattern.starts_with("^[a-z0-9]")
}

/// What is wrong with an id, as the end of a sentence: `contains upper-case letters`.
pub fn id_problem(id: &str, pattern: &str) -> String {
    let edges = |c: char| c == '-' || c == '.';
    let dots = has_dots(pattern);
    let legal =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || (dots && c == '.');
    let named = |c: char| c.is_ascii_uppercase() || c.is_whitespace() || c == '_';
    let other = |c: char| !legal(c) && !named(c);
    let kinds = [
        (
            id.contains(|c: char| c.is_ascii_uppercase()),
            "upper-case letters",
        ),
        (id.contains(char::is_whitespace), "whitespace"),
        (id.contains('_'), "underscores"),
        (id.contains(other), "other characters that are not allowed"),
    ];
    let found: Vec<&str> = kinds
        .into_iter()
        .filter_map(|(found, what)| found.then_some(what))
        .collect();
    let problem = if id.is_empty() {
        "is empty"
    } else if pattern.starts_with("^@") {
        "does not have the form `@owner/slug`"
    } else if found.as_slice() == ["other characters that are not allowed"] {
        "contains characters other than lower-case letters, digits and dashes"
    } else if let Some((last, rest)) = found.split_last() {
        return match rest {
            [] => format!("contains {last}"),
            rest => format!("contains {} and {last}", rest.join(", ")),
        };
    } else if id.starts_with(edges) || id.ends_with(edges) {
        "starts or ends with a dash or a dot"
    } else if id.len() < 2 {
        "is too short"
    } else if id.starts_with(|c: char| c.is_ascii_digit()) && starts_with_letter(pattern) {
        "starts with a digit"
    } else {
        "is too long"
    };
    problem.to_owned()
}
