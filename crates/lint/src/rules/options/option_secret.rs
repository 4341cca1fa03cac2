//! Rules `option-secret-argv` and `option-secret-env`.

use super::syntax::{flag_name, is_secret_name};
use super::{BASE, non_empty_entry, type_of};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Severity, Source};
use agentproto_manifest::Node;

pub static OPTION_SECRET_ARGV: Rule = Rule {
    slug: "option-secret-argv",
    title: "An option passes a credential as an argument",
    source: Source::aip45("Auth surface"),
    decides: &["A45-AUTH-04"],
    fix: FixKind::Suggest,
    docs: include_str!("option-secret-argv.md"),
    ..BASE
};

pub static OPTION_SECRET_ENV: Rule = Rule {
    slug: "option-secret-env",
    title: "An option passes a credential that should be a secret",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source::aip45("Auth surface"),
    decides: &["A45-AUTH-03"],
    docs: include_str!("option-secret-env.md"),
    ..BASE
};

/// Reports string options that contain a credential. They bypass AIP-19, and every process can read
/// a credential in argv.
pub(super) fn secret<'d>(ctx: &RuleContext<'d>, option: &'d Node) {
    if type_of(option) != Some("string") {
        return;
    }
    let template = non_empty_entry(option, "bin_args_template");
    let env = non_empty_entry(option, "env");
    let by_id = option
        .get("id")
        .filter(|id| id.as_str().is_some_and(is_secret_name));
    let by_env = env.and_then(|env| env.value.entries().iter().find(|e| is_secret_name(&e.key)));
    let by_flag = template.and_then(|t| {
        let flags = t.value.strings().filter(|(text, _)| text.starts_with('-'));
        flags
            .filter(|(text, _)| is_secret_name(flag_name(text)))
            .map(|(_, node)| node)
            .next()
    });
    let evidence = by_id
        .map(|id| id.span)
        .or(by_env.map(|e| e.key_span))
        .or(by_flag.map(|node| node.span));
    let Some(evidence) = evidence else {
        return;
    };
    if let Some(entry) = template {
        ctx.report(
            FindingDraft::new(
                &OPTION_SECRET_ARGV,
                entry,
                "this option looks like a credential, and its value would be passed as an argument",
            )
            .help("declare it in SECRETS.md and list its variable under `auth.state.env`: secrets must not be passed in argv")
            .nearby(evidence, "named like a credential"),
        );
    } else if let Some(entry) = env {
        ctx.report(
            FindingDraft::new(
                &OPTION_SECRET_ENV,
                entry,
                "this option looks like a credential, but operators store option values in plain text",
            )
            .help("declare it in SECRETS.md and list its variable under `auth.state.env`")
            .nearby(evidence, "named like a credential"),
        );
    }
}
