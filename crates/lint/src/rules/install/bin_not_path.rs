//! Rule `bin-not-path`: `bin` of a CLI.md is a path instead of a name.

use super::{REQUIRED, is_bin_character, unpinned};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Severity};
use agentproto_manifest::Doctype;
use agentproto_text::truncate;

pub static BIN_NOT_PATH: Rule = Rule {
    slug: "bin-not-path",
    title: "`bin` of a CLI.md is a path instead of a name",
    severity: Severity::Warning,
    source: REQUIRED,
    decides: &["A29-REQ-07"],
    doctypes: &[Doctype::Cli],
    docs: include_str!("bin-not-path.md"),
    ..Rule::BASE
};

pub(super) fn bin(ctx: &RuleContext<'_>) {
    let Some(node) = ctx.root.get("bin") else {
        return;
    };
    let Some(bin) = node.as_str() else {
        return;
    };
    if ctx.is(Doctype::Cli) && bin.contains('/') && is_valid_bin(bin) {
        let last = bin.rsplit('/').find(|part| !part.is_empty());
        ctx.report(
            FindingDraft::new(
                &BIN_NOT_PATH,
                node,
                format!(
                    "`bin` must be a name on $PATH, found the path `{}`",
                    truncate(bin, 60)
                ),
            )
            .help(match last {
                Some(name) => format!(
                    "write `{name}`, and put the path of a shipped binary into a `vendored` install method"
                ),
                None => "write the name of the binary".to_owned(),
            }),
        );
    }
    if matches!(bin, "npx" | "bunx" | "pnpx") {
        unpinned(ctx, bin);
    }
}

/// Whether `bin` is valid, so that it can be compared with other fields. `bin-pattern` and
/// `bin-single-token` report an invalid one.
pub fn is_valid_bin(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_bin_character)
}
