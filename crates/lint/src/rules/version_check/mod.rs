//! How the installed version is asked for, read and judged.

mod catalog;
mod pattern;

pub use catalog::*;

use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::rules::install::is_bin;
use crate::shape::{self, Violation};
use agentproto_manifest::range::Range;
use agentproto_manifest::{Doctype, Node};
use agentproto_text::{base_name, short};

pub static FAMILY: Family = Family {
    name: "version_check",
    rules: &[
        &VC_REQUIRED,
        &VC_PARSE_VALID_REGEX,
        &VC_PARSE_CAPTURE_GROUP,
        &VC_PARSE_DOUBLE_ESCAPED,
        &VC_PARSE_REDOS,
        &VC_RANGE_VALID,
        &VC_RANGE_UNSATISFIABLE,
        &VC_RANGE_UNBOUNDED,
        &VC_TIMEOUT_MIN,
        &VC_CMD_NOT_BIN,
        &VC_CMD_REGISTRY_PROBE,
        &VC_CMD_SHELL_FEATURES,
    ],
    checks: &[Check {
        doctypes: &[Doctype::Cli, Doctype::AgentCli],
        run: check,
    }],
};

fn required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let missing = v.missing.as_deref().unwrap_or("");
    let help = match missing {
        "cmd" => "add the command that prints the version, as in `cmd: mytool --version`",
        "parse" => r"add a regular expression for its output, as in `parse: '(\d+\.\d+\.\d+)'`",
        _ => "add the versions this manifest is for, as in `range: \">=1.2.0 <2.0.0\"`",
    };
    let message = format!("`version_check` lacks `{missing}`");
    ctx.report(Draft::new(v.rule, v.place.clone(), message).help(help));
}

fn timeout_min<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(
        shape::draft(ctx, v)
            .help("give the binary at least 100 ms; 5000 is the default")
            .fix_if(
                Safety::Safe,
                "Raise the timeout to 100 ms",
                edits::set_raw(ctx.doc, v.node, "100"),
            ),
    );
}

fn check(ctx: &Context<'_>) {
    let Some(block) = ctx.root.get("version_check") else {
        return;
    };
    if let Some(node) = block.get("parse")
        && let Some(text) = node.as_str()
    {
        parse(ctx, node, text);
    }
    if let Some(node) = block.get("range")
        && let Some(text) = node.as_str()
    {
        range(ctx, node, text);
    }
    if let Some(node) = block.get("cmd")
        && let Some(text) = node.as_str()
    {
        cmd(ctx, node, text);
    }
}

fn parse<'d>(ctx: &Context<'d>, node: &'d Node, text: &str) {
    let verdict = pattern::judge(text);
    if let Some(error) = &verdict.error {
        let error = error.trim_end_matches('.');
        let mut draft = Draft::new(
            &VC_PARSE_VALID_REGEX,
            node,
            format!("`version_check.parse` is not an ECMAScript regular expression: {error}"),
        );
        if text.contains("(?P<") {
            draft = draft.help("write a named group as `(?<name>…)`, or leave the name out");
        } else if text.starts_with("(?i)") {
            draft = draft.help("there are no inline flags; spell both cases, as in `[Vv]`");
        }
        ctx.report(draft);
        return;
    }
    if verdict.groups == 0 {
        ctx.report(
            Draft::new(
                &VC_PARSE_CAPTURE_GROUP,
                node,
                "`version_check.parse` has no capture group, so no version can be read from the output",
            )
            .help(r"put parentheses around the version, as in `(\d+\.\d+\.\d+)`"),
        );
    }
    if verdict.backtracks {
        ctx.report(
            Draft::new(
                &VC_PARSE_REDOS,
                node,
                "a repeated group of `version_check.parse` repeats within itself and can backtrack for ever",
            )
            .help(r"repeat once, as in `\d+`, or put a fixed character between the rounds, as in `(?:\d+\.)+`"),
        );
    }
    if is_double_escaped(text) {
        ctx.report(
            Draft::new(
                &VC_PARSE_DOUBLE_ESCAPED,
                node,
                "the doubled backslashes of `version_check.parse` look for a backslash in the output",
            )
            .help("write one backslash; only double quotes in YAML need two")
            .fix_if(
                Safety::Safe,
                "Halve the backslashes",
                edits::set_scalar(ctx.doc, node, &text.replace(r"\\", r"\")),
            ),
        );
    }
}

/// Every backslash is doubled, and one pair stands where a class was meant.
fn is_double_escaped(text: &str) -> bool {
    let mut meant = false;
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let Some(after) = rest.get(at..).and_then(|r| r.strip_prefix(r"\\")) else {
            return false;
        };
        if after.starts_with('\\') {
            return false;
        }
        meant |= after.starts_with(['d', 'D', 'w', 'W', 's', 'S', '.']);
        rest = after;
    }
    meant
}

fn range<'d>(ctx: &Context<'d>, node: &'d Node, text: &str) {
    let range = match Range::parse(text) {
        Ok(range) => range,
        Err(error) => {
            let help = if text.contains(',') {
                "put a space between the bounds, not a comma: `>=1.2.0 <2.0.0`"
            } else if text.contains("&&") {
                "bounds that stand side by side all have to hold; leave `&&` out"
            } else {
                "write bounds, as in `>=1.2.0 <2.0.0`, `^1.2.0` or `1.x || 2.x`"
            };
            let shown = short(&error.to_string(), 80);
            ctx.report(
                Draft::new(
                    &VC_RANGE_VALID,
                    node,
                    format!("`version_check.range` is not an npm version range: {shown}"),
                )
                .help(help),
            );
            return;
        }
    };
    if range.is_empty() {
        ctx.report(
            Draft::new(
                &VC_RANGE_UNSATISFIABLE,
                node,
                format!("no version satisfies `{}`", short(text, 60)),
            )
            .help(
                "bounds that stand side by side all have to hold; write `||` between alternatives",
            ),
        );
    } else if range.is_unbounded() {
        ctx.report(
            Draft::new(
                &VC_RANGE_UNBOUNDED,
                node,
                format!("`{}` accepts every later major version", short(text, 60)),
            )
            .help(match range.next_major() {
                Some(next) => format!("add an upper bound, such as `<{next}.0.0`"),
                None => "say from which version to which, as in `>=1.2.0 <2.0.0`".to_owned(),
            }),
        );
    }
}

fn cmd<'d>(ctx: &Context<'d>, node: &'d Node, text: &str) {
    let shell = shell_feature(text);
    if let Some(feature) = shell {
        ctx.report(
            Draft::new(
                &VC_CMD_SHELL_FEATURES,
                node,
                format!("`version_check.cmd` uses {feature}, which only a shell understands"),
            )
            .help("run the binary alone and let `parse` pick the version out of its output"),
        );
    }
    let mut words = text.split_whitespace().skip_while(|w| is_assignment(w));
    let Some(first) = words.next() else {
        return;
    };
    if is_registry_probe(base_name(first), words) && ctx.on(&VC_CMD_REGISTRY_PROBE) {
        ctx.report(
            Draft::new(
                &VC_CMD_REGISTRY_PROBE,
                node,
                "`version_check.cmd` asks the package registry, so it passes with nothing installed",
            )
            .help("ask the installed binary, as in `mytool --version`"),
        );
        return;
    }
    let Some(bin_node) = ctx.root.get("bin") else {
        return;
    };
    // A malformed `bin` is a mistake of its own.
    let Some(bin) = bin_node.as_str().filter(|b| is_bin(b)).map(base_name) else {
        return;
    };
    let runs_bin = base_name(first) == bin
        || (shell.is_some() && text.split_whitespace().any(|word| base_name(word) == bin));
    if !runs_bin && !bin.is_empty() {
        ctx.report(
            Draft::new(
                &VC_CMD_NOT_BIN,
                node,
                format!(
                    "`version_check.cmd` runs `{}`, but the binary is `{bin}`",
                    short(first, 40)
                ),
            )
            .help(format!("ask the binary itself, as in `{bin} --version`"))
            .nearby(bin_node.span, "the binary whose version counts"),
        );
    }
}

/// `NAME=value` before a command.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// The first construct that needs a shell, in words. Quoted text holds none, except that
/// double quotes still let `$` and backquotes through.
fn shell_feature(text: &str) -> Option<&'static str> {
    if text.split_whitespace().next().is_some_and(is_assignment) {
        return Some("a variable assignment");
    }
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => {
                chars.next();
            }
            (None, '\'' | '"') => quote = Some(c),
            (_, '`') => return Some("a command substitution"),
            (_, '$') => match chars.peek() {
                Some('(') => return Some("a command substitution"),
                Some(c) if *c == '{' || *c == '_' || c.is_ascii_alphabetic() => {
                    return Some("a variable");
                }
                _ => {}
            },
            (None, '|') if chars.peek() == Some(&'|') => return Some("`||`"),
            (None, '|') => return Some("a pipe"),
            (None, '&') if chars.peek() == Some(&'&') => return Some("`&&`"),
            (None, '&') => return Some("`&`"),
            (None, ';') => return Some("`;`"),
            (None, '>' | '<') => return Some("a redirection"),
            _ => {}
        }
    }
    None
}

/// Commands that report what a registry offers, not what is installed.
fn is_registry_probe<'w>(tool: &str, mut words: impl Iterator<Item = &'w str>) -> bool {
    if matches!(tool, "curl" | "wget") {
        return words.any(|w| w.contains("://"));
    }
    let mut verbs = words.filter(|w| !w.starts_with('-'));
    let Some(verb) = verbs.next() else {
        return false;
    };
    match tool {
        "npm" | "pnpm" => matches!(verb, "view" | "info" | "show" | "v"),
        "yarn" => verb == "info" || (verb == "npm" && verbs.next() == Some("info")),
        "pip" | "pip3" => matches!(verb, "index" | "search" | "download"),
        "brew" => matches!(verb, "info" | "search"),
        "cargo" => matches!(verb, "search" | "info"),
        "apt" => matches!(verb, "show" | "search"),
        "apt-cache" => matches!(verb, "show" | "policy" | "madison"),
        "gem" => matches!(verb, "search" | "info"),
        "git" => verb == "ls-remote",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_backslashes() {
        assert!(is_double_escaped(r"(\\d+)"));
        assert!(is_double_escaped(r"v(\\d+\\.\\d+)"));
        for text in [r"(\d+)", r"C:\\tool (\d+)", r"a\\b", "(x)", r"\\\d", ""] {
            assert!(!is_double_escaped(text), "{text}");
        }
    }

    #[test]
    fn what_needs_a_shell() {
        for text in [
            "a | b", "a && b", "a; b", "a > f", "a `b`", "a $(b)", "a \"$X\"", "X=1 a", "a ${X}",
            "a &",
        ] {
            assert!(shell_feature(text).is_some(), "{text}");
        }
        for text in [
            "a --version",
            "a 'x | y'",
            "a \"x; y\"",
            r"a x\|y",
            "a $",
            "a --k=v",
            "",
        ] {
            assert_eq!(shell_feature(text), None, "{text}");
        }
    }

    #[test]
    fn what_asks_a_registry() {
        let probe = |text: &str| {
            let mut words = text.split_whitespace();
            is_registry_probe(words.next().unwrap_or(""), words)
        };
        for text in [
            "npm view x version",
            "npm --silent info x",
            "yarn npm info x",
            "curl https://r/x",
            "pip index versions x",
        ] {
            assert!(probe(text), "{text}");
        }
        for text in [
            "npm --version",
            "npm ls -g x",
            "curl --version",
            "pip show x",
            "npx x --version",
            "view",
        ] {
            assert!(!probe(text), "{text}");
        }
    }
}
