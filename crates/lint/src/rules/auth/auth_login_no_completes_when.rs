//! Nobody can tell when the login is done.

use super::{AUTH, BOTH};
use crate::context::{Context, Draft};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static AUTH_LOGIN_NO_COMPLETES_WHEN: Rule = Rule {
    slug: "auth-login-no-completes-when",
    title: "Nobody can tell when the login is done",
    severity: Severity::Warning,
    level: Level::Derived,
    source: AUTH,
    decides: &["A29-AUTH-07"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("auth-login-no-completes-when.md"),
    ..Rule::BASE
};

pub(super) fn login<'d>(ctx: &Context<'d>, auth: &'d Node) {
    if let Some(entry) = auth.entry("login")
        && entry.value.is_map()
        && !entry.value.has("completes_when")
    {
        ctx.report(
            Draft::new(
                &AUTH_LOGIN_NO_COMPLETES_WHEN,
                entry,
                "`auth.login` does not say how to see that the login is done",
            )
            .help("add `completes_when` with a command that ends with 0 once logged in"),
        );
    }
}
