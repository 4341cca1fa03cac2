//! Rules `auth-interactive-no-tty` and `auth-callback-no-ingress`.

use super::{AUTH, CLI};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static AUTH_INTERACTIVE_NO_TTY: Rule = Rule {
    slug: "auth-interactive-no-tty",
    title: "An interactive login has no terminal",
    severity: Severity::Warning,
    level: Level::Derived,
    source: AUTH,
    doctypes: CLI,
    scope: Scope::CrossField,
    docs: include_str!("auth-interactive-no-tty.md"),
    ..Rule::BASE
};

pub static AUTH_CALLBACK_NO_INGRESS: Rule = Rule {
    slug: "auth-callback-no-ingress",
    title: "The sandbox blocks the login callback",
    level: Level::Derived,
    source: AUTH,
    decides: &["A29-AUTH-06"],
    doctypes: CLI,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("auth-callback-no-ingress.md"),
    ..Rule::BASE
};

pub(super) fn terminal_and_callback<'d>(ctx: &RuleContext<'d>, auth: &'d Node, sandbox: &'d Node) {
    let flag = |key| {
        auth.at(&["login", key])
            .filter(|node| node.as_bool() == Some(true))
    };
    if let Some(node) = flag("interactive")
        && let Some(tty) = sandbox.at(&["tty", "required"])
        && tty.as_bool() == Some(false)
    {
        ctx.report(
            FindingDraft::new(
                &AUTH_INTERACTIVE_NO_TTY,
                node,
                "the login is interactive, but the sandbox does not provide a terminal",
            )
            .help("set `sandbox.tty.required: true`, unless the login only opens a browser")
            .nearby(tty.span, "no terminal"),
        );
    }
    if let Some(node) = flag("requires_callback_url")
        && let Some(network) = sandbox.entry("network")
        && network.value.is_map()
    {
        let ingress = network.value.get("ingress");
        if ingress.is_none_or(|list| list.is_seq() && list.items().is_empty()) {
            ctx.report(
                FindingDraft::new(
                    &AUTH_CALLBACK_NO_INGRESS,
                    node,
                    "the login requires a callback, but `sandbox.network.ingress` allows no inbound URL",
                )
                .help("add the callback's address to `sandbox.network.ingress`")
                .nearby(
                    ingress.map_or(network.key_span, |list| list.span),
                    "no inbound URL is allowed",
                ),
            );
        }
    }
}
