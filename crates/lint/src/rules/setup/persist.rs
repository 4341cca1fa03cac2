//! Rules `setup-persist-env-name`, `setup-persist-cmd-no-value`, `setup-secret-persisted-env` and
//! `setup-persist-slug-undeclared`.

use super::{CLI_AND_AGENT_CLI, SETUP, named};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use crate::rules::auth::{env_name_help, env_name_message, secrets_in, secrets_of, secrets_place};
use agentproto_manifest::Node;
use agentproto_text::{closest_of, truncate};

pub static SETUP_PERSIST_ENV_NAME: Rule = Rule {
    slug: "setup-persist-env-name",
    title: "`persist.env` is not an upper-case variable name",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SETUP,
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("setup-persist-env-name.md"),
    ..Rule::BASE
};

pub static SETUP_PERSIST_CMD_NO_VALUE: Rule = Rule {
    slug: "setup-persist-cmd-no-value",
    title: "`persist.cmd` does not use the value",
    severity: Severity::Warning,
    level: Level::May,
    source: SETUP,
    decides: &["A29-SETUP-19"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("setup-persist-cmd-no-value.md"),
    ..Rule::BASE
};

pub static SETUP_SECRET_PERSISTED_ENV: Rule = Rule {
    slug: "setup-secret-persisted-env",
    title: "A secret is stored as a plain variable",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SETUP,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("setup-secret-persisted-env.md"),
    ..Rule::BASE
};

pub static SETUP_PERSIST_SLUG_UNDECLARED: Rule = Rule {
    slug: "setup-persist-slug-undeclared",
    title: "`persist.secret_slug` names an undeclared secret",
    level: Level::Derived,
    source: SETUP,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("setup-persist-slug-undeclared.md"),
    ..Rule::BASE
};

pub(super) fn persist<'d>(ctx: &RuleContext<'d>, step: &'d Node) {
    let Some(persist) = step.get("persist") else {
        return;
    };
    // `setup-persist-on-oauth` reports it there.
    if step.str_at(&["kind"]) == Some("oauth") {
        return;
    }
    if let Some(node) = persist.get("env")
        && let Some(name) = node.as_str()
    {
        if !is_env_name(name) {
            ctx.report(
                FindingDraft::new(&SETUP_PERSIST_ENV_NAME, node, env_name_message(name))
                    .help(env_name_help(name)),
            );
        }
        if step.str_at(&["kind"]) == Some("prompt") && step.str_at(&["type"]) == Some("secret") {
            ctx.report(
                FindingDraft::new(
                    &SETUP_SECRET_PERSISTED_ENV,
                    node,
                    format!(
                        "{} asks for a secret and stores it as a plain variable",
                        named(step)
                    ),
                )
                .help("use `persist: { secret_slug: … }` with a slug from SECRETS.md"),
            );
        }
    }
    if let Some(node) = persist.get("cmd")
        && let Some(command) = node.as_str()
        && !command.contains("${value}")
    {
        ctx.report(
            FindingDraft::new(
                &SETUP_PERSIST_CMD_NO_VALUE,
                node,
                "this command does not use the value that it should store",
            )
            .help("put `${value}` where the value belongs"),
        );
    }
    if let Some(node) = persist.get("secret_slug")
        && let Some(slug) = node.as_str()
        && let Some((reference, doc)) = secrets_of(ctx)
    {
        let declared = || secrets_in(doc).iter().filter_map(|s| s.str_at(&["slug"]));
        if !declared().any(|s| s == slug) {
            ctx.report(
                FindingDraft::new(
                    &SETUP_PERSIST_SLUG_UNDECLARED,
                    node,
                    format!(
                        "`{}` does not declare the secret `{}`",
                        truncate(reference.site.text, 60),
                        truncate(slug, 80)
                    ),
                )
                .help(match closest_of(slug, declared()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "declare it there".to_owned(),
                })
                .related(doc, secrets_place(doc), "the declared secrets"),
            );
        }
    }
}

/// Whether the reference implementation accepts the name. AIP-29 does not define the form.
fn is_env_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}
