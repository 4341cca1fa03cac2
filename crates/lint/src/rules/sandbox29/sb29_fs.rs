//! `sb29-fs-glob-invalid`, `sb29-fs-broad-write`.

use super::{BOTH, SANDBOX, check_shadow, check_ssh};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Severity};
use agentproto_manifest::{Doctype, Node, globs};
use agentproto_text::truncate;

pub static FS_GLOB_INVALID: Rule = Rule {
    slug: "sb29-fs-glob-invalid",
    title: "A file pattern is not a valid glob",
    source: SANDBOX,
    decides: &["A29-SBX-05"],
    doctypes: BOTH,
    docs: include_str!("sb29-fs-glob-invalid.md"),
    ..Rule::BASE
};

pub static FS_BROAD_WRITE: Rule = Rule {
    slug: "sb29-fs-broad-write",
    title: "Write access covers the whole disk or the whole home directory",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SANDBOX,
    doctypes: BOTH,
    docs: include_str!("sb29-fs-broad-write.md"),
    ..Rule::BASE
};

pub(super) fn check_fs<'d>(ctx: &RuleContext<'d>, fs: &'d Node) {
    let deny = fs.get("deny");
    for list in ["read", "write", "deny"] {
        let Some(entries) = fs.get(list) else {
            continue;
        };
        for (glob, node) in entries.strings() {
            let plain = !glob.is_empty() && !glob.contains(['[', ']', '{', '}', '\\', '\0']);
            if !plain && !globs::is_valid(glob) {
                let message = match glob {
                    "" => format!("empty entry in `fs.{list}`"),
                    _ => format!("`{}` is not a valid glob", truncate(glob, 60)),
                };
                let report = FindingDraft::new(&FS_GLOB_INVALID, node, message)
                    .help("close every `[` and `{`; `~/`, `*` and `**` are allowed");
                ctx.report(report);
                continue;
            }
            if list == "deny" {
                continue;
            }
            if list == "write" && covers_root_or_home(glob) {
                let report = FindingDraft::new(
                    &FS_BROAD_WRITE,
                    node,
                    format!("`{glob}` lets the command write to {}", root_or_home(glob)),
                )
                .help("grant only the directories that the command writes to");
                ctx.report(report);
            }
            if let Some(deny) = deny {
                check_shadow(ctx, list, glob, node, deny);
            }
        }
    }
    if ctx.is(Doctype::Cli)
        && let Some(read) = fs.get("read")
    {
        check_ssh(ctx, read, deny);
    }
}

fn covers_root_or_home(glob: &str) -> bool {
    matches!(
        glob,
        "/" | "/*"
            | "/**"
            | "/**/*"
            | "~"
            | "~/"
            | "~/*"
            | "~/**"
            | "~/**/*"
            | "$HOME"
            | "$HOME/**"
            | "${HOME}"
            | "${HOME}/**"
    )
}

fn root_or_home(glob: &str) -> &'static str {
    if glob.starts_with('/') {
        "the whole disk"
    } else {
        "the whole home directory"
    }
}
