//! `adapter-npm-name`, `adapter-unpinned`.

use super::{BASE, fits_schema, is_npm_name, split_version};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use agentproto_manifest::{Node, RefRole};

pub static ADAPTER_NPM_NAME: Rule = Rule {
    slug: "adapter-npm-name",
    title: "The adapter is not a valid npm package name",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-FM-15"],
    docs: include_str!("adapter-npm-name.md"),
    ..BASE
};

pub static ADAPTER_UNPINNED: Rule = Rule {
    slug: "adapter-unpinned",
    title: "The version of the adapter is not pinned",
    severity: Severity::Info,
    level: Level::May,
    source: Source::aip45("Security considerations"),
    decides: &["A45-SEC-07"],
    scope: Scope::CrossField,
    docs: include_str!("adapter-unpinned.md"),
    ..BASE
};

pub(super) fn adapter(ctx: &RuleContext<'_>) {
    let Some(node) = ctx.root.get("adapter") else {
        return;
    };
    let Some(name) = node.as_str() else {
        return;
    };
    if !is_npm_name(name) {
        // If the name does not match the schema either, `adapter-pattern` reports it.
        if fits_schema(name) {
            ctx.report(
                FindingDraft::new(
                    &ADAPTER_NPM_NAME,
                    node,
                    "`adapter` matches the schema, but it is not a valid npm package name",
                )
                .help("write `name` or `@scope/name`"),
            );
        }
        return;
    }
    if !fits_schema(name) || pinned(ctx, name) {
        return;
    }
    ctx.report(
        FindingDraft::new(
            &ADAPTER_UNPINNED,
            node,
            "the version of the adapter is not pinned, and hosts import it as code",
        )
        .help(format!(
            "list it under `runner.needs.npm` with a version, for example `{name}@1.2.3`"
        )),
    );
}

/// Whether the runner, inline or in its own file, lists the package with an exact version.
fn pinned(ctx: &RuleContext<'_>, adapter: &str) -> bool {
    let names_it = |runner: &Node| {
        runner.at(&["needs", "npm"]).is_some_and(|list| {
            list.strings().any(|(text, _)| {
                split_version(text).is_some_and(|(name, version)| {
                    name == adapter && semver::Version::parse(version).is_ok()
                })
            })
        })
    };
    match ctx.root.get("runner") {
        None => false,
        Some(runner) if runner.is_map() => names_it(runner),
        Some(_) => ctx
            .bound(RefRole::Runner)
            .and_then(|(_, doc)| doc.root.as_ref())
            .is_some_and(names_it),
    }
}
