//! Rule `setup-extra-field`: a step has a field that its kind does not allow.

use super::{CLI_AND_AGENT_CLI, SETUP, report};
use crate::context::RuleContext;
use crate::rule::{FixKind, Rule};
use crate::shape::{SchemaViolation, draft};
use agentproto_text::{closest_of, one_of};

pub static SETUP_EXTRA_FIELD: Rule = Rule {
    slug: "setup-extra-field",
    report: Some(extra_field),
    title: "A step has a field that its kind does not allow",
    source: SETUP,
    decides: &["A29-SETUP-04", "A29-SETUP-05"],
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Suggest,
    docs: include_str!("setup-extra-field.md"),
    ..Rule::BASE
};

fn extra_field<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let Some(entry) = v.entry else {
        return ctx.report(draft(ctx, v));
    };
    let kind = v.node.str_at(&["kind"]).unwrap_or("");
    // The schema lists `persist` for this kind only to reject it (`setup-persist-on-oauth`).
    let fields = v.expected.iter().map(String::as_str);
    let known: Vec<&str> = fields
        .filter(|field| kind != "oauth" || *field != "persist")
        .collect();
    // A part of a name, such as `slug` for `secret_slug`.
    let part = |field: &&str| {
        let prefix = field.strip_suffix(entry.key.as_str());
        prefix.is_some_and(|prefix| prefix.ends_with('_'))
    };
    let meant = known.iter().copied().find(part);
    let meant = meant.or_else(|| closest_of(&entry.key, known.iter().copied()));
    let help = match (owner_of(&entry.key), meant) {
        (Some(owner), _) => format!("remove it: only steps of kind `{owner}` have this field"),
        (None, Some(meant)) => format!("did you mean `{meant}`?"),
        (None, None) => format!("expected {}", one_of(&known)),
    };
    let message = format!("unknown field `{}` for a step of kind `{kind}`", entry.key);
    report(ctx, v, message, help);
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
