//! Rules `auth-state-env-undeclared` and `auth-state-env-name`.

use super::{
    AUTH, CLI_AND_AGENT_CLI, env_name_help, env_name_message, is_env_name, secrets_in, secrets_of,
    secrets_place,
};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static AUTH_STATE_ENV_UNDECLARED: Rule = Rule {
    slug: "auth-state-env-undeclared",
    title: "No declared secret provides a login variable",
    severity: Severity::Warning,
    level: Level::May,
    source: AUTH,
    decides: &["A29-AUTH-02", "A29-SKILL-03"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("auth-state-env-undeclared.md"),
    ..Rule::BASE
};

pub static AUTH_STATE_ENV_NAME: Rule = Rule {
    slug: "auth-state-env-name",
    title: "The name of a login variable is not upper case",
    severity: Severity::Warning,
    level: Level::Derived,
    source: AUTH,
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("auth-state-env-name.md"),
    ..Rule::BASE
};

pub(super) fn state_env<'d>(ctx: &RuleContext<'d>, auth: &'d Node) {
    let Some(env) = auth.at(&["state", "env"]) else {
        return;
    };
    for (name, node) in env.strings() {
        if !is_env_name(name) {
            ctx.report(
                FindingDraft::new(&AUTH_STATE_ENV_NAME, node, env_name_message(name))
                    .help(env_name_help(name)),
            );
            continue;
        }
        if let Some((reference, secrets)) = secrets_of(ctx)
            && !secrets_in(secrets).iter().any(|s| provides(s, name))
        {
            let slug = name.to_ascii_lowercase().replace('_', "-");
            ctx.report(
                FindingDraft::new(
                    &AUTH_STATE_ENV_UNDECLARED,
                    node,
                    format!(
                        "no secret in `{}` provides the variable `{name}`",
                        truncate(reference.site.text, 60)
                    ),
                )
                .help(format!(
                    "declare a secret with slug `{}` in that file, or map an existing one with `metadata: {{ bindings: {{ env: {name} }} }}`",
                    slug.trim_matches('-')
                ))
                .related(secrets, secrets_place(secrets), "the declared secrets"),
            );
        }
    }
}

/// Whether a declared secret provides a variable: by the naming convention (its group is optional),
/// by an exposure, or by name in its metadata.
fn provides(secret: &Node, variable: &str) -> bool {
    let by_name = |slug: &str| {
        slug.len() == variable.len()
            && slug.bytes().zip(variable.bytes()).all(|(s, v)| match s {
                b'-' | b'/' => v == b'_',
                s => s.to_ascii_uppercase() == v,
            })
    };
    let slug = secret.str_at(&["slug"]).unwrap_or("");
    by_name(slug)
        || slug.split_once('/').is_some_and(|(_, own)| by_name(own))
        || secret
            .get("exposures")
            .map_or(&[][..], Node::items)
            .iter()
            .any(|e| {
                // A placeholder is also passed as a variable. The host replaces it in outgoing
                // traffic.
                let name = match e.str_at(&["kind"]) {
                    Some("env") => e.str_at(&["name"]),
                    Some("egress-substitute") => e.str_at(&["placeholderName"]),
                    _ => None,
                };
                name == Some(variable)
            })
        || secret
            .at(&["metadata", "bindings", "env"])
            .is_some_and(|env| {
                env.as_str() == Some(variable) || env.strings().any(|(n, _)| n == variable)
            })
}
