//! `sb29-env-set-secret`, `sb29-env-pass-and-set`.

use super::values::holds_secret;
use super::{BOTH, SANDBOX};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Node;

pub static ENV_SET_SECRET: Rule = Rule {
    slug: "sb29-env-set-secret",
    title: "`env.set` contains a secret in plain text",
    source: Source {
        spec: "AIP-36",
        section: "Conformance rules",
    },
    doctypes: BOTH,
    docs: include_str!("sb29-env-set-secret.md"),
    ..Rule::BASE
};

pub static ENV_PASS_AND_SET: Rule = Rule {
    slug: "sb29-env-pass-and-set",
    title: "A variable is listed in both `env.pass` and `env.set`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SANDBOX,
    doctypes: BOTH,
    scope: Scope::CrossField,
    docs: include_str!("sb29-env-pass-and-set.md"),
    ..Rule::BASE
};

pub(super) fn check_env<'d>(ctx: &RuleContext<'d>, env: &'d Node) {
    let Some(set) = env.get("set") else {
        return;
    };
    let pass = env.get("pass");
    for entry in set.entries() {
        if entry
            .value
            .as_str()
            .is_some_and(|value| holds_secret(&entry.key, value))
        {
            let report = FindingDraft::new(
                &ENV_SET_SECRET,
                entry,
                format!("`env.set` contains the secret `{}` in plain text", entry.key),
            )
            .help(format!(
                "declare it in SECRETS.md and add `{}` to `env.pass`; then rotate the secret, because it is exposed",
                entry.key
            ));
            ctx.report(report);
        }
        let passed = pass.and_then(|list| list.strings().find(|(name, _)| *name == entry.key));
        if let Some((name, node)) = passed {
            let report = FindingDraft::new(
                &ENV_PASS_AND_SET,
                entry,
                format!(
                    "`{name}` is set here and also passed from the host; the value set here is used"
                ),
            )
            .nearby(node.span, "passed here")
            .help("remove it from `env.pass` or from `env.set`");
            ctx.report(report);
        }
    }
}
