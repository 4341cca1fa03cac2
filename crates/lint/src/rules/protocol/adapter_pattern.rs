//! The adapter does not match the pattern of a package name.

use super::{BASE, is_npm_name, split_version};
use crate::context::FindingDraft;
use crate::rule::Rule;
use agentproto_manifest::Node;

pub static ADAPTER_PATTERN: Rule = Rule {
    slug: "adapter-pattern",
    report: Some(|ctx, v| ctx.report(adapter_pattern(v.node))),
    title: "The adapter does not match the pattern of a package name",
    decides: &["A45-FM-15"],
    docs: include_str!("adapter-pattern.md"),
    ..BASE
};

fn adapter_pattern(node: &Node) -> FindingDraft<'_> {
    let text = node.as_str().unwrap_or("");
    let (message, help) = match split_version(text) {
        Some((name, _)) if is_npm_name(name) => (
            "`adapter` must be a package name without a version",
            "remove the version here and pin it under `runner.needs.npm`",
        ),
        _ if is_npm_name(text) => (
            "`adapter` is a valid npm package name, but the schema of AIP-45 does not allow it",
            "use lower-case letters, digits, `-` and `.`, after an optional `@scope/`",
        ),
        _ => (
            "`adapter` is not a valid npm package name",
            "use lower-case letters, digits, `-` and `.`, for example `@scope/adapter-name`",
        ),
    };
    FindingDraft::new(&ADAPTER_PATTERN, node, message).help(help)
}
