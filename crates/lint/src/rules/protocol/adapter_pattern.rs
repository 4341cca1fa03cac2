//! The adapter is not written as a package name.

use super::{BASE, is_npm_name, split_version};
use crate::context::Draft;
use crate::rule::Rule;
use agentproto_manifest::Node;

pub static ADAPTER_PATTERN: Rule = Rule {
    slug: "adapter-pattern",
    words: Some(|ctx, v| ctx.report(adapter_pattern(v.node))),
    title: "The adapter is not written as a package name",
    decides: &["A45-FM-15"],
    docs: include_str!("adapter-pattern.md"),
    ..BASE
};

fn adapter_pattern(node: &Node) -> Draft<'_> {
    let text = node.as_str().unwrap_or("");
    let (message, help) = match split_version(text) {
        Some((name, _)) if is_npm_name(name) => (
            "`adapter` is the name of a package and cannot carry a version",
            "write the bare name here and pin the version under `runner.needs.npm`",
        ),
        _ if is_npm_name(text) => (
            "`adapter` is a name that npm takes, but the schema of AIP-45 does not",
            "use lower-case letters, digits, `-` and `.`, after an optional `@scope/`",
        ),
        _ => (
            "`adapter` is not the name of an npm package",
            "write it like `@scope/adapter-name`: lower-case letters, digits, `-` and `.`",
        ),
    };
    Draft::new(&ADAPTER_PATTERN, node, message).help(help)
}
