//! Rule `setup-extra-field`: a step has a field that its kind does not allow.

use super::{BOTH, SETUP, say};
use crate::context::Context;
use crate::rule::{FixKind, Rule};
use crate::shape::{Violation, draft};
use agentproto_text::{closest_of, one_of};

pub static SETUP_EXTRA_FIELD: Rule = Rule {
    slug: "setup-extra-field",
    words: Some(extra_field),
    title: "A step has a field that its kind does not allow",
    source: SETUP,
    decides: &["A29-SETUP-04", "A29-SETUP-05"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    docs: include_str!("setup-extra-field.md"),
    ..Rule::BASE
};

fn extra_field<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let Some(entry) = v.entry else {
        return ctx.report(draft(ctx, v));
    };
    let kind = v.node.str_at(&["kind"]).unwrap_or("");
    let known = v.expected.iter().map(String::as_str);
    let help = match (owner_of(&entry.key), closest_of(&entry.key, known)) {
        (Some(owner), _) => format!("remove it: only steps of kind `{owner}` have this field"),
        (None, Some(meant)) => format!("did you mean `{meant}`?"),
        (None, None) => format!("allowed: {}", one_of(&v.expected)),
    };
    let message = format!("a step of kind `{kind}` has no field `{}`", entry.key);
    say(ctx, v, message, help);
}

/// The only kind of step that has a field.
fn owner_of(field: &str) -> Option<&'static str> {
    Some(match field {
        "cmd" | "interactive" | "timeout_ms" => "cmd",
        "prompt" | "type" | "default" | "options" => "prompt",
        "secret_slug" => "oauth",
        "url" | "callback" => "external",
        _ => return None,
    })
}
