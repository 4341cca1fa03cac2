//! The binary of a CLI.md is a path, not a name.

use super::{REQUIRED, is_bin_character, unpinned};
use crate::context::{Context, Draft};
use crate::rule::{Rule, Severity};
use agentproto_manifest::Doctype;
use agentproto_text::short;

pub static BIN_NOT_PATH: Rule = Rule {
    slug: "bin-not-path",
    title: "The binary of a CLI.md is a path, not a name",
    severity: Severity::Warning,
    source: REQUIRED,
    decides: &["A29-REQ-07"],
    doctypes: &[Doctype::Cli],
    docs: include_str!("bin-not-path.md"),
    ..Rule::BASE
};

pub(super) fn bin(ctx: &Context<'_>) {
    let Some(node) = ctx.root.get("bin") else {
        return;
    };
    let Some(bin) = node.as_str() else {
        return;
    };
    if ctx.is(Doctype::Cli) && bin.contains('/') && is_bin(bin) {
        let last = bin.rsplit('/').find(|part| !part.is_empty());
        ctx.report(
            Draft::new(
                &BIN_NOT_PATH,
                node,
                format!("`bin` is a path, `{}`, not a name on $PATH", short(bin, 60)),
            )
            .help(match last {
                Some(name) => format!("write `{name}`; a `vendored` method holds the path"),
                None => "write the name of the binary".to_owned(),
            }),
        );
    }
    if matches!(bin, "npx" | "bunx" | "pnpx") {
        unpinned(ctx, bin);
    }
}

/// Whether `bin` can be compared with other fields; one that cannot is reported as such.
pub fn is_bin(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_bin_character)
}
