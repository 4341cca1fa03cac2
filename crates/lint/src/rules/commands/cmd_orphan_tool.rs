//! Rule `cmd-orphan-tool`: a TOOL.md of the bundle is not listed in `commands`.

use super::{CLI, SUBCOMMANDS, is_plain_word};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::{Edit, Safety};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::{Document, Entry, Node, PathKind, RefRole};
use rustc_hash::FxHashSet;
use std::ffi::OsStr;

pub static ORPHAN_TOOL: Rule = Rule {
    slug: "cmd-orphan-tool",
    title: "A TOOL.md of the bundle is not listed in `commands`",
    severity: Severity::Info,
    level: Level::Derived,
    source: SUBCOMMANDS,
    decides: &["A29-SKILL-05"],
    doctypes: CLI,
    scope: Scope::CrossFile,
    fix: FixKind::Safe,
    docs: include_str!("cmd-orphan-tool.md"),
    ..Rule::BASE
};

pub(super) fn check_orphans<'d>(ctx: &RuleContext<'d>, commands: &'d Entry) {
    if !ctx.on(&ORPHAN_TOOL) {
        return;
    }
    let dir = agentproto_manifest::normalize(ctx.doc.dir()).join("tools");
    let leaves = ctx.refs().iter().filter(|r| r.site.role == RefRole::Tool);
    let indexed: FxHashSet<&OsStr> = leaves
        .filter_map(|r| Some(r.target.document()?.path.as_os_str()))
        .collect();
    for name in ctx.workspace.manifests_in(&dir) {
        let path = dir.join(&name).join("TOOL.md");
        let there = || matches!(ctx.workspace.files.kind(&path), Some(PathKind::File { .. }));
        if indexed.contains(path.as_os_str()) || !there() {
            continue;
        }
        let reference = format!("./tools/{name}/TOOL.md");
        let report = FindingDraft::new(
            &ORPHAN_TOOL,
            commands,
            format!("`{reference}` is not listed in `commands`"),
        );
        let words = ctx
            .workspace
            .load(&path)
            .ok()
            .map(|doc| leading_words(&doc))
            .unwrap_or_default();
        let is_taken = {
            let path: Vec<&str> = words.iter().map(String::as_str).collect();
            commands.value.at(&path).is_some()
        };
        ctx.report(if words.is_empty() {
            report.help("add a subcommand for it, or remove the tool")
        } else if is_taken {
            let shown = words.join(" ");
            report.help(format!(
                "correct the path of the subcommand `{shown}`, or list the tool under another name"
            ))
        } else {
            let shown = words.join(" ");
            report
                .help(format!(
                    "add it as the subcommand `{shown}`, or remove the tool"
                ))
                .fix_if(
                    Safety::Safe,
                    format!("Add the subcommand `{shown}`"),
                    insert_leaf(ctx, &commands.value, &words, &reference),
                )
        });
    }
}

/// The subcommand at the start of a tool's argument template.
fn leading_words(tool: &Document) -> Vec<String> {
    let argv = tool
        .root
        .as_ref()
        .and_then(|root| root.at(&["runner", "argv"]));
    let items = argv.map_or(&[][..], Node::items).iter();
    items
        .map_while(|item| item.as_str().filter(|word| is_plain_word(word)))
        .map(str::to_owned)
        .collect()
}

fn insert_leaf(
    ctx: &RuleContext<'_>,
    tree: &Node,
    words: &[String],
    reference: &str,
) -> Option<Vec<Edit>> {
    let (first, rest) = words.split_first()?;
    if let Some(next) = tree.get(first) {
        // If another leaf already has the name, the author must decide.
        return next
            .is_map()
            .then(|| insert_leaf(ctx, next, rest, reference))
            .flatten();
    }
    let leaf = edits::string(reference);
    let yaml = rest
        .iter()
        .rev()
        .fold(leaf, |inner, word| format!("{{{word}: {inner}}}"));
    edits::add_entry(ctx.doc, tree, first, &yaml)
}
