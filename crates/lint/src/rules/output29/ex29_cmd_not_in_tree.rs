//! An example uses a subcommand that is not in `commands`.

use super::{CLI, EXAMPLES};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::{Entry, Node, Value};
use agentproto_text::{closest_of, truncate};

pub static EXAMPLE_NOT_IN_TREE: Rule = Rule {
    slug: "ex29-cmd-not-in-tree",
    title: "An example uses a subcommand that is not in `commands`",
    severity: Severity::Info,
    level: Level::Derived,
    source: EXAMPLES,
    doctypes: CLI,
    scope: Scope::CrossField,
    docs: include_str!("ex29-cmd-not-in-tree.md"),
    ..Rule::BASE
};

pub(super) fn check_path<'d, 'w>(
    ctx: &RuleContext<'d>,
    cmd: &'d Node,
    commands: &'d Entry,
    words: impl Iterator<Item = &'w str>,
) {
    let mut group = &commands.value;
    let mut path = String::new();
    for word in words {
        // Options before the subcommand may take values, so the next word may not be a subcommand.
        let plain = word.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !plain || group.entries().is_empty() {
            return;
        }
        let Some(next) = group.get(word) else {
            let known = group.entries().iter().map(|e| e.key.as_str());
            let report = FindingDraft::new(
                &EXAMPLE_NOT_IN_TREE,
                cmd,
                format!("`{}{}` is not in `commands`", path, truncate(word, 40)),
            )
            .nearby(commands.key_span, "subcommands of this tool");
            ctx.report(match closest_of(word, known) {
                Some(meant) => report.help(format!("did you mean `{path}{meant}`?")),
                None => report.help(
                    "add its TOOL.md to `commands`, or use another subcommand in the example",
                ),
            });
            return;
        };
        if !matches!(next.value, Value::Map(_)) {
            return;
        }
        path.push_str(word);
        path.push(' ');
        group = next;
    }
}
