//! Authentication: where the login is stored, and how it is obtained, refreshed and lost.

mod auth_expiry_code;
mod auth_expiry_format;
mod auth_login_no_completes_when;
mod auth_ref_secrets_valid;
mod auth_refresh_every;
mod auth_state_env;
mod auth_state_env_not_passed;
mod auth_state_paths;
mod duration;
mod inline_secrets;
mod terminal_and_callback;

use crate::context::{FindingDraft, Location, ResolvedRef, RuleContext};
use crate::registry::{Family, FamilyCheck};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use crate::rules::options;
use agentproto_manifest::{Doctype, Document, Node, RefRole, Span};
use agentproto_text::truncate;
use std::sync::Arc;

use auth_expiry_code::{AUTH_EXPIRY_CODE_AMBIGUOUS, AUTH_EXPIRY_CODE_UNMAPPED, expiry_code};
use auth_expiry_format::AUTH_EXPIRY_FORMAT;
use auth_login_no_completes_when::{AUTH_LOGIN_NO_COMPLETES_WHEN, login};
use auth_ref_secrets_valid::{AUTH_REF_SECRETS_VALID, secrets_valid};
use auth_refresh_every::{AUTH_REFRESH_EVERY_ISO8601, AUTH_REFRESH_EVERY_MISSING, refresh};
use auth_state_env::{AUTH_STATE_ENV_NAME, AUTH_STATE_ENV_UNDECLARED, state_env};
use auth_state_env_not_passed::{AUTH_STATE_ENV_NOT_PASSED, env_passed};
use auth_state_paths::{
    AUTH_STATE_PATHS_DENIED, AUTH_STATE_PATHS_NOT_WHITELISTED, paths_reachable,
};
use terminal_and_callback::{
    AUTH_CALLBACK_NO_INGRESS, AUTH_INTERACTIVE_NO_TTY, terminal_and_callback,
};

pub static FAMILY: Family = Family {
    name: "auth",
    rules: &[
        &AUTH_RECOMMENDED,
        &AUTH_REF_SECRETS_VALID,
        &AUTH_STATE_ENV_UNDECLARED,
        &AUTH_STATE_ENV_NAME,
        &AUTH_STATE_ENV_NOT_PASSED,
        &AUTH_STATE_PATHS_NOT_WHITELISTED,
        &AUTH_STATE_PATHS_DENIED,
        &AUTH_LOGIN_NO_COMPLETES_WHEN,
        &AUTH_INTERACTIVE_NO_TTY,
        &AUTH_CALLBACK_NO_INGRESS,
        &AUTH_REFRESH_EVERY_ISO8601,
        &AUTH_REFRESH_EVERY_MISSING,
        &AUTH_EXPIRY_FORMAT,
        &AUTH_EXPIRY_CODE_UNMAPPED,
        &AUTH_EXPIRY_CODE_AMBIGUOUS,
        &AUTH_CMD_INLINE_SECRET,
        &AUTH_ENV_ISOLATION,
    ],
    checks: &[
        FamilyCheck {
            doctypes: &[Doctype::Cli, Doctype::AgentCli],
            run: check,
        },
        FamilyCheck {
            doctypes: &[Doctype::Cli],
            run: check_against_sandbox,
        },
        FamilyCheck {
            doctypes: &[Doctype::AgentCli],
            run: check_agent,
        },
    ],
};

const CLI_AND_AGENT_CLI: &[Doctype] = &[Doctype::Cli, Doctype::AgentCli];

const CLI: &[Doctype] = &[Doctype::Cli];

const AGENT: &[Doctype] = &[Doctype::AgentCli];

const AUTH: Source = Source {
    spec: "AIP-29",
    section: "Auth",
};

pub static AUTH_RECOMMENDED: Rule = Rule {
    slug: "auth-recommended",
    title: "An AGENT-CLI.md has no `auth`",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source {
        spec: "AIP-45",
        section: "Auth surface",
    },
    decides: &["A45-AUTH-01"],
    doctypes: AGENT,
    docs: include_str!("auth-recommended.md"),
    ..Rule::BASE
};

pub static AUTH_CMD_INLINE_SECRET: Rule = Rule {
    slug: "auth-cmd-inline-secret",
    title: "A command contains a secret",
    level: Level::Derived,
    source: AUTH,
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("auth-cmd-inline-secret.md"),
    ..Rule::BASE
};

pub static AUTH_ENV_ISOLATION: Rule = Rule {
    slug: "auth-env-isolation",
    title: "An agent with `auth` runs in a sandbox that does not isolate the environment",
    severity: Severity::Warning,
    source: Source {
        spec: "AIP-45",
        section: "Security",
    },
    decides: &["A45-SEC-05"],
    doctypes: AGENT,
    scope: Scope::CrossFile,
    docs: include_str!("auth-env-isolation.md"),
    ..Rule::BASE
};

fn check(ctx: &RuleContext<'_>) {
    let auth = ctx.root.get("auth");
    if let Some(auth) = auth {
        if let Some((reference, secrets)) = secrets_file(ctx) {
            secrets_valid(ctx, reference, secrets);
        }
        state_env(ctx, auth);
        login(ctx, auth);
        refresh(ctx, auth);
    }
    for command in commands(ctx.root, auth) {
        if let Some(what) = command.as_str().and_then(inline_secrets::find_secret) {
            ctx.report(
                FindingDraft::new(
                    &AUTH_CMD_INLINE_SECRET,
                    command,
                    format!("this command contains {what}"),
                )
                .help("declare the secret in SECRETS.md, list its variable in `auth.state.env`, and use the variable here, for example `$API_KEY`. Revoke the secret if it is real"),
            );
        }
    }
}

/// The SECRETS.md that `auth.ref` names, if it has a list `secrets`. A file without the list has
/// its own finding, so its secrets are not also reported as missing.
pub fn secrets_of<'c, 'd>(
    ctx: &'c RuleContext<'d>,
) -> Option<(&'c ResolvedRef<'d>, &'c Arc<Document>)> {
    secrets_file(ctx).filter(|(_, doc)| {
        let list = doc.root.as_ref().and_then(|root| root.get("secrets"));
        list.is_some_and(Node::is_seq)
    })
}

/// The SECRETS.md that `auth.ref` names.
fn secrets_file<'c, 'd>(
    ctx: &'c RuleContext<'d>,
) -> Option<(&'c ResolvedRef<'d>, &'c Arc<Document>)> {
    let node = ctx.root.at(&["auth", "ref"])?;
    let reference = ctx
        .refs()
        .iter()
        .find(|r| r.site.role == RefRole::Secrets && std::ptr::eq(r.site.node, node))?;
    let doc = reference.target.document()?;
    let fits = doc.root.is_some() && doc.doctype == Some(Doctype::Secrets);
    fits.then_some((reference, doc))
}

/// Entries of `secrets` in a SECRETS.md.
pub fn secrets_in(doc: &Document) -> &[Node] {
    doc.root
        .as_ref()
        .and_then(|root| root.get("secrets"))
        .map_or(&[], Node::items)
}

/// The place in a SECRETS.md to point at when a secret is missing from it.
pub fn secrets_place(doc: &Document) -> Span {
    doc.root
        .as_ref()
        .and_then(|root| root.entry("secrets"))
        .map_or(Span::default(), |entry| entry.key_span)
}

fn is_env_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// The message for a name that is not an upper-case variable name.
pub fn env_name_message(name: &str) -> String {
    let shown = truncate(name, 40);
    if options::is_env_name(name) && name.contains(|c: char| c.is_ascii_lowercase()) {
        format!("the variable name `{shown}` is not in upper case")
    } else {
        format!("invalid environment variable name `{shown}`")
    }
}

/// The help for such a name: the corrected name, if there is one.
pub fn env_name_help(name: &str) -> String {
    let corrected = name
        .trim()
        .to_ascii_uppercase()
        .replace(['-', '.', ' '], "_");
    let valid = corrected.starts_with(|c: char| c.is_ascii_uppercase()) && is_env_name(&corrected);
    if valid {
        format!("write `{}`", truncate(&corrected, 40))
    } else {
        "start with an upper-case letter, and use only upper-case letters, digits and `_`, for example `API_TOKEN`".to_owned()
    }
}

/// Command lines of the login and of the first-run steps.
fn commands<'d>(root: &'d Node, auth: Option<&'d Node>) -> impl Iterator<Item = &'d Node> {
    let login = [
        auth.and_then(|a| a.at(&["login", "cmd"])),
        auth.and_then(|a| a.at(&["login", "completes_when", "cmd"])),
        auth.and_then(|a| a.at(&["refresh", "cmd"])),
    ];
    let steps = root.get("setup").map_or(&[][..], Node::items).iter();
    let steps = steps.flat_map(|step| {
        [
            step.get("cmd"),
            step.at(&["skip_if", "cmd"]),
            step.at(&["persist", "cmd"]),
        ]
    });
    login.into_iter().chain(steps).flatten()
}

/// Checks the fields that only an AIP-29 manifest has: sandbox lists, exit codes and the terminal.
fn check_against_sandbox(ctx: &RuleContext<'_>) {
    let Some(auth) = ctx.root.get("auth") else {
        return;
    };
    if let Some(sandbox) = ctx.root.get("sandbox") {
        env_passed(ctx, auth, sandbox);
        paths_reachable(ctx, auth, sandbox);
        terminal_and_callback(ctx, auth, sandbox);
    }
    expiry_code(ctx, auth);
}

/// The provider that does not isolate the environment of child processes on any host: the
/// permission model of Node.js does not cover it. `local` is isolated by hosts that build the
/// environment from declared variables, as agentproto does.
const NOT_ISOLATING: &str = "node-permission";

/// Checks that apply only to an AIP-45 manifest.
fn check_agent(ctx: &RuleContext<'_>) {
    let Some(auth) = ctx.root.entry("auth") else {
        let open = ctx
            .doc
            .frontmatter
            .map_or(Span::default(), |front| front.open);
        ctx.report(
            FindingDraft::new(
                &AUTH_RECOMMENDED,
                Location::Bytes(open),
                "`auth` is missing: hosts cannot tell how this agent logs in",
            )
            .help("add `auth` with a `ref` to a SECRETS.md that lists the secrets of the agent"),
        );
        return;
    };
    let Some(sandbox) = ctx.root.get("sandbox") else {
        return;
    };
    let message = "the provider `node-permission` does not isolate environment variables, which contain secrets here";
    let help = "use another provider: `local` on a host that enforces it, or one that starts a separate machine";
    if let Some(provider) = sandbox.get("provider") {
        if provider.as_str() == Some(NOT_ISOLATING) {
            ctx.report(
                FindingDraft::new(&AUTH_ENV_ISOLATION, provider, message)
                    .help(help)
                    .nearby(
                        auth.key_span,
                        "the agent receives secrets as environment variables",
                    ),
            );
        }
    } else if sandbox.as_str().is_some()
        && let Some((reference, doc)) = ctx.bound(RefRole::Sandbox)
        && let Some(provider) = doc.root.as_ref().and_then(|root| root.get("provider"))
        && provider.as_str() == Some(NOT_ISOLATING)
    {
        ctx.report(
            FindingDraft::new(&AUTH_ENV_ISOLATION, reference.site.node, message)
                .help(help)
                .nearby(
                    auth.key_span,
                    "the agent receives secrets as environment variables",
                )
                .related(doc, provider.span, "the provider is set here"),
        );
    }
}
