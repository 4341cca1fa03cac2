//! The version check: its command, the pattern for the output, and the version range.

mod pattern;
mod vc_cmd;
mod vc_parse;
mod vc_range;
mod vc_required;
mod vc_timeout_min;

use crate::context::RuleContext;
use crate::registry::{Family, FamilyCheck};
use crate::rule::Source;
use agentproto_manifest::Doctype;

use vc_cmd::{VC_CMD_NOT_BIN, VC_CMD_REGISTRY_PROBE, VC_CMD_SHELL_FEATURES, cmd};
use vc_parse::{
    VC_PARSE_CAPTURE_GROUP, VC_PARSE_DOUBLE_ESCAPED, VC_PARSE_REDOS, VC_PARSE_VALID_REGEX, parse,
};
use vc_range::{VC_RANGE_UNBOUNDED, VC_RANGE_UNSATISFIABLE, VC_RANGE_VALID, range};
use vc_required::VC_REQUIRED;
use vc_timeout_min::VC_TIMEOUT_MIN;

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
    checks: &[FamilyCheck {
        doctypes: &[Doctype::Cli, Doctype::AgentCli],
        run: check,
    }],
};

const CLI_AND_AGENT_CLI: &[Doctype] = &[Doctype::Cli, Doctype::AgentCli];

const VERSION: Source = Source {
    spec: "AIP-29",
    section: "Version detection",
};

fn check(ctx: &RuleContext<'_>) {
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

/// Whether every backslash is doubled, including at least one of a class such as `\d`.
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

/// Whether a word is an assignment before a command, such as `NAME=value`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// Describes the first construct that needs a shell. Quoted text contains none, except that `$` and
/// backquotes also work in double quotes.
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

/// Whether a command reports what a registry offers, and not what is installed.
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
    fn doubled_backslashes_are_found() {
        assert!(is_double_escaped(r"(\\d+)"));
        assert!(is_double_escaped(r"v(\\d+\\.\\d+)"));
        for text in [r"(\d+)", r"C:\\tool (\d+)", r"a\\b", "(x)", r"\\\d", ""] {
            assert!(!is_double_escaped(text), "{text}");
        }
    }

    #[test]
    fn shell_features_are_found() {
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
    fn registry_probes_are_found() {
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
