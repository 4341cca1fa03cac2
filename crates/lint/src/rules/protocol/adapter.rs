//! `adapter-npm-name`, `adapter-unpinned`.

use super::{BASE, fits_schema, is_npm_name, split_version};
use crate::context::{Context, Draft};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use agentproto_manifest::{Node, RefRole};

pub static ADAPTER_NPM_NAME: Rule = Rule {
    slug: "adapter-npm-name",
    title: "The adapter cannot be the name of an npm package",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-FM-15"],
    docs: include_str!("adapter-npm-name.md"),
    ..BASE
};

pub static ADAPTER_UNPINNED: Rule = Rule {
    slug: "adapter-unpinned",
    title: "Nothing pins the version of the adapter",
    severity: Severity::Info,
    level: Level::May,
    source: Source::aip45("Security considerations"),
    decides: &["A45-SEC-07"],
    scope: Scope::CrossField,
    docs: include_str!("adapter-unpinned.md"),
    ..BASE
};

pub(super) fn adapter(ctx: &Context<'_>) {
    let Some(node) = ctx.root.get("adapter") else {
        return;
    };
    let Some(name) = node.as_str() else {
        return;
    };
    if !is_npm_name(name) {
        // Where the schema's pattern speaks already, this would be the same mistake.
        if fits_schema(name) {
            ctx.report(
                Draft::new(
                    &ADAPTER_NPM_NAME,
                    node,
                    "`adapter` fits the schema's pattern, but npm has no package of such a name",
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
        Draft::new(
            &ADAPTER_UNPINNED,
            node,
            "nothing pins the version of the adapter, which the host imports as code",
        )
        .help(format!(
            "name it under `runner.needs.npm` with a version, as in `{name}@1.2.3`"
        )),
    );
}

/// Whether the runner, inline or in its own file, names the package at one exact version.
fn pinned(ctx: &Context<'_>, adapter: &str) -> bool {
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
