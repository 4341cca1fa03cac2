//! Rule `auth-state-env-not-passed`: the sandbox does not pass a login variable to the binary.

use super::{AUTH, CLI, is_env_name};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Scope};
use agentproto_manifest::{Node, globs};
use agentproto_text::truncate;

pub static AUTH_STATE_ENV_NOT_PASSED: Rule = Rule {
    slug: "auth-state-env-not-passed",
    title: "The sandbox does not pass a login variable to the binary",
    level: Level::Derived,
    source: AUTH,
    doctypes: CLI,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("auth-state-env-not-passed.md"),
    ..Rule::BASE
};

pub(super) fn env_passed<'d>(ctx: &RuleContext<'d>, auth: &'d Node, sandbox: &'d Node) {
    let (Some(names), Some(env)) = (auth.at(&["state", "env"]), sandbox.entry("env")) else {
        return;
    };
    if !env.value.is_map() {
        return;
    }
    let pass = env.value.get("pass");
    if pass.is_some_and(|p| !p.is_seq()) {
        return;
    }
    for (name, node) in names.strings() {
        let passed = pass.is_some_and(|list| {
            list.strings()
                .any(|(p, _)| p == name || (p.contains('*') && globs::matches(p, name)))
        });
        let set = env.value.get("set").is_some_and(|set| set.has(name));
        // `auth-state-env-name` reports an invalid name.
        if passed || set || !is_env_name(name) {
            continue;
        }
        let edits = match pass {
            Some(list) => edits::append_item(ctx.doc, list, name),
            None => edits::add_entry(
                ctx.doc,
                &env.value,
                "pass",
                &format!("[{}]", edits::string(name)),
            ),
        };
        ctx.report(
            FindingDraft::new(
                &AUTH_STATE_ENV_NOT_PASSED,
                node,
                format!(
                    "`sandbox.env.pass` does not contain `{}`, so the binary cannot read it",
                    truncate(name, 40)
                ),
            )
            .help("add it to `sandbox.env.pass`")
            .nearby(
                pass.map_or(env.key_span, |list| list.span),
                "the binary receives only the variables listed here",
            )
            .fix_if(Safety::Safe, "Pass the variable", edits),
        );
    }
}
