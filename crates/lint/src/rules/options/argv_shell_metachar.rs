//! Rule `argv-shell-metachar`: an argument uses shell syntax, but no shell runs the command.

use super::BASE;
use super::syntax::shell_syntax;
use crate::context::{FindingDraft, Location, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::{Node, Span};

pub static ARGV_SHELL_METACHAR: Rule = Rule {
    slug: "argv-shell-metachar",
    title: "An argument uses shell syntax, but no shell runs the command",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::Field,
    docs: include_str!("argv-shell-metachar.md"),
    ..BASE
};

/// Reports shell syntax in arguments. No shell reads them, so the program would receive the syntax
/// as plain text.
pub(super) fn argv<'d>(ctx: &RuleContext<'d>, args: &'d Node, has_placeholders: bool) {
    let mut script = false;
    for item in args.items() {
        let Some(text) = item.as_str() else {
            continue;
        };
        // `sh -c "a && b"` passes the text to a shell on purpose.
        let is_script = std::mem::replace(
            &mut script,
            matches!(text, "-c" | "-lc" | "-ec" | "-Command"),
        );
        if is_script {
            continue;
        }
        if let Some((at, sign)) = shell_syntax(text, has_placeholders) {
            ctx.report(
                FindingDraft::new(
                    &ARGV_SHELL_METACHAR,
                    part(ctx, item, text, at, sign.len()),
                    format!(
                        "`{sign}` is shell syntax, but this argument is not passed to a shell"
                    ),
                )
                .help(
                    "write each argument as a separate item, exactly as the program should receive it",
                ),
            );
        }
    }
}

/// The place of a part of a scalar, or of the whole scalar if its source text is escaped.
fn part<'d>(
    ctx: &RuleContext<'d>,
    node: &'d Node,
    text: &str,
    at: usize,
    len: usize,
) -> Location<'d> {
    let written = ctx.doc.slice(node.span);
    match written.find(text) {
        Some(offset) => {
            let start = node.span.start as usize + offset + at;
            Location::Part(node, Span::new(start, start + len))
        }
        None => Location::Value(node),
    }
}
