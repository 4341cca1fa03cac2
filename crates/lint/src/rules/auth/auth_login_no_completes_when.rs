//! Rule `auth-login-no-completes-when`: `auth.login` does not define when the login is complete.

use super::{AUTH, CLI_AND_AGENT_CLI};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static AUTH_LOGIN_NO_COMPLETES_WHEN: Rule = Rule {
    slug: "auth-login-no-completes-when",
    title: "`auth.login` does not define when the login is complete",
    severity: Severity::Warning,
    level: Level::Derived,
    source: AUTH,
    decides: &["A29-AUTH-07"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("auth-login-no-completes-when.md"),
    ..Rule::BASE
};

pub(super) fn login<'d>(ctx: &RuleContext<'d>, auth: &'d Node) {
    if let Some(entry) = auth.entry("login")
        && entry.value.is_map()
        && !entry.value.has("completes_when")
    {
        ctx.report(
            FindingDraft::new(
                &AUTH_LOGIN_NO_COMPLETES_WHEN,
                entry,
                "`auth.login` has no `completes_when`, so hosts cannot tell when the login is complete",
            )
            .help("add `completes_when` with a command that exits with code 0 after a successful login"),
        );
    }
}
