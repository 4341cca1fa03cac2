//! The tree of subcommands, their tools, and the intents that a bundle ships.

mod argv;
mod catalog;
mod tool;
mod widen;

use std::ffi::OsStr;
use std::path::Path;

use catalog::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::{Edit, Safety};
use crate::registry::{Check, Family};
use crate::shape::{Keyword, Violation};
use agentproto_manifest::{
    Doctype, Document, Entry, Node, PathKind, ReadError, RefRole, Resolution, Value,
};
use agentproto_text::{closest_of, short};

pub static FAMILY: Family = Family {
    name: "commands",
    rules: &[
        &TREE_LEAF_TYPE,
        &EMPTY,
        &REF_MISSING,
        &REF_NOT_TOOL,
        &PATH_TOKEN,
        &DUPLICATE_REF,
        &ORPHAN_TOOL,
        &BACKREF,
        &ARGV_PREFIX,
        &ARGV_SHELL,
        &ARGV_UNKNOWN_INPUT,
        &ARGV_UNKNOWN_FILTER,
        &ARGV_SECRET,
        &SANDBOX_WIDENS,
        &INTENTS_VS_ACTIONS,
        &INTENT_REF_MISSING,
    ],
    checks: &[
        Check {
            doctypes: &[Doctype::Cli],
            run: check_cli,
        },
        Check {
            doctypes: &[Doctype::Tool],
            run: tool::check,
        },
    ],
};

/// AIP-14: only a tool that changes nothing may run without anybody's approval.
pub fn unapproved<'d>(ctx: &Context<'d>, violation: &Violation<'d>) -> bool {
    if violation.keyword != Keyword::MaxItems || !ctx.is(Doctype::Tool) {
        return false;
    }
    let Some(entry) = ctx.root.entry("mutates") else {
        return false;
    };
    if !std::ptr::eq(&entry.value, violation.node) {
        return false;
    }
    let approval = ctx.root.get("approval");
    let message = match approval {
        Some(_) => "this tool changes something, so `approval: auto` is not for it",
        None => "this tool changes something, and without `approval` it runs unasked",
    };
    let mut report = Draft::new(violation.rule, entry, message)
        .help("set `approval: on-mutate` or `always`, or leave `mutates` empty");
    if let Some(approval) = approval {
        report = report.nearby(approval.span, "no approval");
    }
    ctx.report(report);
    true
}

fn leaf_type<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let what = match &violation.node.value {
        Value::Null => "is empty",
        Value::Seq(_) => "is a list",
        _ => "is not a string",
    };
    let report = Draft::new(
        &TREE_LEAF_TYPE,
        violation.node,
        format!(
            "this subcommand {what}; it must be the path of a TOOL.md or a group of subcommands"
        ),
    )
    .help("write `NAME: ./tools/NAME/TOOL.md`");
    ctx.report(report);
}

fn check_cli(ctx: &Context<'_>) {
    check_intents(ctx);
    let Some(commands) = ctx.root.entry("commands") else {
        return;
    };
    if commands.value.is_map() {
        check_tree(ctx, commands);
        check_leaves(ctx);
        check_orphans(ctx, commands);
    }
}

/// Depth is bounded by the parser, so recursion is.
fn check_tree<'d>(ctx: &Context<'d>, group: &'d Entry) {
    if group.value.entries().is_empty() {
        let message = if std::ptr::eq(group, ctx.root.entry("commands").unwrap_or(group)) {
            "`commands` is empty: this bundle offers nothing to call".to_owned()
        } else {
            format!("the group `{}` has no subcommands", group.key)
        };
        let report = Draft::new(&EMPTY, group, message)
            .help("index each subcommand: `NAME: ./tools/NAME/TOOL.md`");
        return ctx.report(report);
    }
    for entry in group.value.entries() {
        if let Some(fault) = token_fault(&entry.key) {
            let words: Vec<&str> = entry.key.split_whitespace().collect();
            let report = Draft::new(
                &PATH_TOKEN,
                entry,
                format!(
                    "`{}` {fault}, so it is not one argument of a command line",
                    short(&entry.key, 40)
                ),
            );
            ctx.report(match words.as_slice() {
                [first, _, ..] => report.help(format!(
                    "nest the words: `{first}:` with the next word below it"
                )),
                _ => report.help("use the word that is typed after the binary"),
            });
        }
        if entry.value.is_map() {
            check_tree(ctx, entry);
        }
    }
}

fn token_fault(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        Some("is empty")
    } else if key.contains(char::is_whitespace) {
        Some("has a space")
    } else if key.contains([
        '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '{', '}', '!', '#',
    ]) {
        Some("has a character that shells act on")
    } else {
        None
    }
}

fn check_leaves(ctx: &Context<'_>) {
    // By their texts: references resolve to normalised paths.
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
                    let report = Draft::new(
                        &DUPLICATE_REF,
                        node,
                        format!("another subcommand names `{}` already", short(text, 60)),
                    )
                    .nearby(first.span, "first here")
                    .help("write a TOOL.md for each subcommand");
                    ctx.report(report);
                }
            }
            _ => {}
        }
    }
}

/// A folder with a TOOL.md in it is a leaf by the wrong name; without one it is no leaf.
fn report_folder<'d>(ctx: &Context<'d>, node: &'d Node, text: &str, path: &Path) {
    let inside = path.join("TOOL.md");
    let has_tool = matches!(
        ctx.workspace.files.kind(&inside),
        Some(PathKind::File { .. })
    );
    let folder = short(text, 60);
    ctx.report(if has_tool {
        Draft::new(
            &REF_NOT_TOOL,
            node,
            format!("`{folder}` is a folder, not the TOOL.md in it"),
        )
        .help(format!("write `{}/TOOL.md`", text.trim_end_matches('/')))
    } else {
        Draft::new(
            &REF_MISSING,
            node,
            format!("`{folder}` is a folder without a TOOL.md"),
        )
        .help("write the TOOL.md and name it, or remove the subcommand")
    });
}

/// A target of another doctype is the business of the reference rules.
fn check_tool_name<'d>(ctx: &Context<'d>, node: &'d Node, text: &str, doc: &Document) {
    let name = text.rsplit(['/', '\\']).next().unwrap_or(text);
    if doc.doctype == Some(Doctype::Tool) && Doctype::from_file_name(name) != Some(Doctype::Tool) {
        let report = Draft::new(
            &REF_NOT_TOOL,
            node,
            format!(
                "`{}` is a tool by its content, but not by its name",
                short(text, 60)
            ),
        )
        .help("call the file TOOL.md, in a directory of its own");
        ctx.report(report);
    }
}

fn report_missing<'d>(ctx: &Context<'d>, node: &'d Node, text: &str, path: &Path) {
    let report = Draft::new(
        &REF_MISSING,
        node,
        format!("there is no file `{}`", short(text, 80)),
    );
    ctx.report(report.help(match similar(ctx, path) {
        Some(name) => format!("did you mean `{name}`? Otherwise write the TOOL.md"),
        None => "write the TOOL.md, or remove the subcommand".to_owned(),
    }));
}

/// A TOOL.md whose directory has a similar name, as a reference from this document.
fn similar(ctx: &Context<'_>, missing: &Path) -> Option<String> {
    let dir = missing.parent()?;
    let parent = dir.parent()?;
    let names = ctx.workspace.manifests_in(parent);
    let wanted = dir.file_name()?.to_str()?;
    let name = closest_of(
        wanted,
        names.iter().map(String::as_str).filter(|n| *n != wanted),
    )?;
    let found = parent.join(name).join("TOOL.md");
    matches!(
        ctx.workspace.files.kind(&found),
        Some(PathKind::File { .. })
    )
    .then_some(())?;
    let base = agentproto_manifest::normalize(ctx.doc.dir());
    let inside = found.strip_prefix(base).ok()?;
    Some(format!("./{}", inside.to_str()?.replace('\\', "/")))
}

fn check_orphans<'d>(ctx: &Context<'d>, commands: &'d Entry) {
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
        let report = Draft::new(
            &ORPHAN_TOOL,
            commands,
            format!("`{reference}` is not in `commands`"),
        );
        let words = ctx
            .workspace
            .load(&path)
            .ok()
            .map(|doc| leading_words(&doc))
            .unwrap_or_default();
        ctx.report(if words.is_empty() {
            report.help("add a leaf for it, or remove the tool")
        } else {
            let shown = words.join(" ");
            report
                .help(format!("add it as `{shown}`, or remove the tool"))
                .fix_if(
                    Safety::Safe,
                    format!("Add the subcommand `{shown}`"),
                    insert_leaf(ctx, &commands.value, &words, &reference),
                )
        });
    }
}

/// The subcommand that a tool's own argument template begins with.
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

/// A word that can only be a subcommand: no option, no template, no path.
fn is_plain_word(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn insert_leaf(
    ctx: &Context<'_>,
    tree: &Node,
    words: &[String],
    reference: &str,
) -> Option<Vec<Edit>> {
    let (first, rest) = words.split_first()?;
    if let Some(next) = tree.get(first) {
        // A leaf in the way, or a taken name, is for the author to sort out.
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

fn check_intents(ctx: &Context<'_>) {
    if let Some(intents) = ctx.root.entry("intents") {
        let report = Draft::new(
            &INTENTS_VS_ACTIONS,
            intents,
            "`intents` is the name in the prose; the published schema calls this list `actions`",
        );
        ctx.report(match ctx.root.entry("actions") {
            Some(actions) => report
                .nearby(actions.key_span, "the other list")
                .help("move the entries to `actions`"),
            None => report.help("rename it to `actions`").fix_if(
                Safety::Safe,
                "Rename `intents` to `actions`",
                edits::rename_key(ctx.doc, intents, "actions"),
            ),
        });
    }
    if !ctx.root.has("intents") && !ctx.root.has("actions") {
        return;
    }
    for intent in ctx.refs().iter().filter(|r| r.site.role == RefRole::Intent) {
        if let Resolution::Missing(_) = &intent.target {
            let report = Draft::new(
                &INTENT_REF_MISSING,
                intent.site.node,
                format!("there is no file `{}`", short(intent.site.text, 80)),
            )
            .help("write the INTENT.md, or remove the entry");
            ctx.report(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_command_line() {
        for key in [
            "merge",
            "run-logs",
            "v2",
            "a.b",
            "config:set",
            "@scope",
            "+x",
        ] {
            assert_eq!(token_fault(key), None, "{key}");
        }
        for key in ["", "merge open", "a|b", "$x", "tab\tbed", "a\u{a0}b"] {
            assert!(token_fault(key).is_some(), "{key:?}");
        }
        assert!(is_plain_word("run-logs") && !is_plain_word("--x") && !is_plain_word("a/b"));
    }
}
