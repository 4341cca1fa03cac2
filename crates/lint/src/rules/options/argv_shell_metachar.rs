//! An argument relies on a shell that is not there.

use super::BASE;
use super::words::shell_sign;
use crate::context::{Context, Draft, Place};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::{Node, Span};

pub static ARGV_SHELL_METACHAR: Rule = Rule {
    slug: "argv-shell-metachar",
    title: "An argument relies on a shell that is not there",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::Field,
    docs: include_str!("argv-shell-metachar.md"),
    ..BASE
};

/// No shell reads these arguments, so its signs reach the program as they stand.
pub(super) fn argv<'d>(ctx: &Context<'d>, args: &'d Node, has_placeholders: bool) {
    let mut script = false;
    for item in args.items() {
        let Some(text) = item.as_str() else {
            continue;
        };
        // `sh -c "a && b"` hands the text to a shell on purpose.
        let is_script = std::mem::replace(
            &mut script,
            matches!(text, "-c" | "-lc" | "-ec" | "-Command"),
        );
        if is_script {
            continue;
        }
        if let Some((at, sign)) = shell_sign(text, has_placeholders) {
            ctx.report(
                Draft::new(
                    &ARGV_SHELL_METACHAR,
                    part(ctx, item, text, at, sign.len()),
                    format!(
                        "`{sign}` means something to a shell, but no shell reads this argument"
                    ),
                )
                .help(
                    "write each argument as its own item, spelled out as the program is to get it",
                ),
            );
        }
    }
}

/// The bytes of a part of a scalar, where the scalar is written as it reads.
fn part<'d>(ctx: &Context<'d>, node: &'d Node, text: &str, at: usize, len: usize) -> Place<'d> {
    let written = ctx.doc.slice(node.span);
    match written.find(text) {
        Some(offset) => {
            let start = node.span.start as usize + offset + at;
            Place::Part(node, Span::new(start, start + len))
        }
        None => Place::Value(node),
    }
}
