//! Rules `cmd-empty` and `cmd-path-token`.

use super::{CLI, SUBCOMMANDS, token_error};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Severity};
use agentproto_manifest::Entry;
use agentproto_text::truncate;

pub static EMPTY: Rule = Rule {
    slug: "cmd-empty",
    title: "`commands`, or a group in it, is empty",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SUBCOMMANDS,
    doctypes: CLI,
    docs: include_str!("cmd-empty.md"),
    ..Rule::BASE
};

pub static PATH_TOKEN: Rule = Rule {
    slug: "cmd-path-token",
    title: "A key of `commands` is not a single command-line word",
    level: Level::Derived,
    source: SUBCOMMANDS,
    decides: &["A29-CMD-02"],
    doctypes: CLI,
    docs: include_str!("cmd-path-token.md"),
    ..Rule::BASE
};

/// The parser limits the nesting depth, so the recursion is bounded.
pub(super) fn check_tree<'d>(ctx: &RuleContext<'d>, group: &'d Entry) {
    if group.value.entries().is_empty() {
        let message = if std::ptr::eq(group, ctx.root.entry("commands").unwrap_or(group)) {
            "`commands` is empty, so this bundle has nothing to call".to_owned()
        } else {
            format!("the group `{}` has no subcommands", group.key)
        };
        let report = FindingDraft::new(&EMPTY, group, message)
            .help("list each subcommand as `NAME: ./tools/NAME/TOOL.md`");
        return ctx.report(report);
    }
    for entry in group.value.entries() {
        if let Some(error) = token_error(&entry.key) {
            let words: Vec<&str> = entry.key.split_whitespace().collect();
            let report = FindingDraft::new(
                &PATH_TOKEN,
                entry,
                format!(
                    "`{}` {error}, so it cannot be one command-line argument",
                    truncate(&entry.key, 40)
                ),
            );
            ctx.report(match words.as_slice() {
                [first, _, ..] => report.help(format!(
                    "nest the words: `{first}:` with the next word below it"
                )),
                _ => report.help("use the word that users type after the binary"),
            });
        }
        if entry.value.is_map() {
            check_tree(ctx, entry);
        }
    }
}
