//! Rules `setup-secret-default` and `setup-boolean-default`.

use super::{CLI_AND_AGENT_CLI, SETUP, named, options_without_select, select};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static SETUP_SECRET_DEFAULT: Rule = Rule {
    slug: "setup-secret-default",
    title: "A prompt for a secret has a default",
    level: Level::Derived,
    source: SETUP,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("setup-secret-default.md"),
    ..Rule::BASE
};

pub static SETUP_BOOLEAN_DEFAULT: Rule = Rule {
    slug: "setup-boolean-default",
    title: "The default of a boolean prompt is neither `true` nor `false`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SETUP,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("setup-boolean-default.md"),
    ..Rule::BASE
};

pub(super) fn prompt<'d>(ctx: &RuleContext<'d>, step: &'d Node) {
    if step.str_at(&["kind"]) != Some("prompt") {
        return;
    }
    let kind = match step.get("type") {
        None => "text",
        Some(node) => node.as_str().unwrap_or(""),
    };
    let default = step.entry("default");
    let options = step.entry("options");
    match kind {
        "select" => select(ctx, step),
        "text" | "boolean" | "secret" => {
            if let Some(options) = options {
                options_without_select(ctx, step, kind, options);
            }
        }
        _ => {}
    }
    let Some(default) = default else {
        return;
    };
    if kind == "secret" {
        ctx.report(
            FindingDraft::new(
                &SETUP_SECRET_DEFAULT,
                default,
                format!("{} asks for a secret but has a default", named(step)),
            )
            .help("remove `default`, and revoke it if it is a real secret"),
        );
    }
    if kind == "boolean"
        && let Some(text) = default.value.as_str()
        && !matches!(text, "true" | "false")
    {
        ctx.report(
            FindingDraft::new(
                &SETUP_BOOLEAN_DEFAULT,
                &default.value,
                format!(
                    "`{}` is not a valid default for a boolean prompt",
                    truncate(text, 40)
                ),
            )
            .help("write \"true\" or \"false\", in quotes"),
        );
    }
}
