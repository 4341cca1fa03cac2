//! Rule `setup-required-field`: a step is missing a required field.

use super::{CLI_AND_AGENT_CLI, SETUP, named, report};
use crate::context::RuleContext;
use crate::rule::{FixKind, Rule};
use crate::shape::SchemaViolation;
use agentproto_text::one_of;

pub static SETUP_REQUIRED_FIELD: Rule = Rule {
    slug: "setup-required-field",
    report: Some(required_field),
    title: "A step is missing a required field",
    source: SETUP,
    decides: &[
        "A29-SETUP-04",
        "A29-SETUP-05",
        "A29-SETUP-07",
        "A29-SETUP-09",
        "A29-SETUP-11",
        "A45-FM-09",
        "A45-SETUP-01",
    ],
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Suggest,
    docs: include_str!("setup-required-field.md"),
    ..Rule::BASE
};

fn required_field<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let name = v.missing.as_deref().unwrap_or("");
    let help = match name {
        "kind" => format!("add `kind`: {}", one_of(&v.expected)),
        "id" => "add an `id` that never changes, for example `id: pick-host`".to_owned(),
        _ => format!("add `{name}`"),
    };
    let who = match v.node.str_at(&["kind"]) {
        Some(kind) if name == "id" => format!("a step of kind `{kind}`"),
        Some(kind) if name != "kind" => format!("{} of kind `{kind}`", named(v.node)),
        _ => named(v.node),
    };
    report(ctx, v, format!("{who} is missing `{name}`"), help);
}
