//! Rule `cmd-duplicate-ref`: two subcommands refer to the same TOOL.md.

use super::{CLI, SUBCOMMANDS, check_tool_name, report_folder, report_missing};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::{Node, ReadError, RefRole, Resolution};
use agentproto_text::truncate;
use rustc_hash::FxHashMap;
use std::ffi::OsStr;

pub static DUPLICATE_REF: Rule = Rule {
    slug: "cmd-duplicate-ref",
    title: "Two subcommands refer to the same TOOL.md",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SUBCOMMANDS,
    decides: &["A29-SKILL-05"],
    doctypes: CLI,
    scope: Scope::CrossField,
    docs: include_str!("cmd-duplicate-ref.md"),
    ..Rule::BASE
};

pub(super) fn check_leaves(ctx: &RuleContext<'_>) {
    // The keys are path texts, which works because references resolve to normalized paths.
    let mut first_use: FxHashMap<&OsStr, &Node> = FxHashMap::default();
    for leaf in ctx.refs().iter().filter(|r| r.site.role == RefRole::Tool) {
        let (node, text) = (leaf.site.node, leaf.site.text);
        match &leaf.target {
            Resolution::Missing(path) => report_missing(ctx, node, text, path),
            Resolution::Unreadable(path, ReadError::IsDirectory) if !text.trim().is_empty() => {
                report_folder(ctx, node, text, path);
            }
            Resolution::Document(doc) => {
                check_tool_name(ctx, node, text, doc);
                if let Some(first) = first_use.insert(doc.path.as_os_str(), node) {
                    let report = FindingDraft::new(
                        &DUPLICATE_REF,
                        node,
                        format!(
                            "another subcommand already refers to `{}`",
                            truncate(text, 60)
                        ),
                    )
                    .nearby(first.span, "first here")
                    .help("write a separate TOOL.md for each subcommand");
                    ctx.report(report);
                }
            }
            _ => {}
        }
    }
}
