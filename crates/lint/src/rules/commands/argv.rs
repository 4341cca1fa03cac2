//! Argument templates such as `${input.NAME | filter}`, and shell syntax around them.

use super::{ARGS, SUBCOMMANDS, TOOL};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use crate::rules::sandbox29::has_secret_name;
use agentproto_manifest::Node;
use agentproto_manifest::templates::{Templates, split_filters, unclosed_template};
use agentproto_text::{closest_of, one_of, truncate};

pub static ARGV_SHELL: Rule = Rule {
    slug: "tool-argv-shell",
    title: "`runner.argv` uses shell syntax",
    source: ARGS,
    decides: &["A29-CMD-09", "A29-CMD-10"],
    doctypes: TOOL,
    docs: include_str!("tool-argv-shell.md"),
    ..Rule::BASE
};

pub static ARGV_UNKNOWN_INPUT: Rule = Rule {
    slug: "tool-argv-unknown-input",
    title: "`runner.argv` uses an unknown input or template",
    level: Level::Derived,
    source: ARGS,
    decides: &["A29-CMD-06"],
    doctypes: TOOL,
    scope: Scope::CrossField,
    docs: include_str!("tool-argv-unknown-input.md"),
    ..Rule::BASE
};

pub static INPUT_REQUIRED_UNKNOWN: Rule = Rule {
    slug: "tool-input-required-unknown",
    title: "A required input is not declared",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SUBCOMMANDS,
    doctypes: TOOL,
    scope: Scope::CrossField,
    docs: include_str!("tool-input-required-unknown.md"),
    ..Rule::BASE
};

pub static ARGV_UNKNOWN_FILTER: Rule = Rule {
    slug: "tool-argv-unknown-filter",
    title: "`runner.argv` uses an unknown filter",
    severity: Severity::Warning,
    level: Level::May,
    source: ARGS,
    decides: &["A29-CMD-07"],
    doctypes: TOOL,
    docs: include_str!("tool-argv-unknown-filter.md"),
    ..Rule::BASE
};

pub static ARGV_SECRET: Rule = Rule {
    slug: "tool-argv-secret",
    title: "`runner.argv` passes a secret on the command line",
    source: Source {
        spec: "AIP-45",
        section: "Auth",
    },
    decides: &["A45-AUTH-04"],
    doctypes: TOOL,
    docs: include_str!("tool-argv-secret.md"),
    ..Rule::BASE
};

const FILTERS: [&str; 4] = ["default", "optional", "flag", "json"];

/// Checks that each name in `inputs.required` is a property. A schema without properties may have
/// them elsewhere, for example in `$ref` or `allOf`.
pub fn check_required<'d>(ctx: &RuleContext<'d>, inputs: &'d Node) {
    let (Some(required), Some(properties)) = (inputs.get("required"), inputs.get("properties"))
    else {
        return;
    };
    let combines = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"];
    if !properties.is_map() || combines.iter().any(|key| inputs.has(key)) {
        return;
    }
    let names = || properties.entries().iter().map(|entry| entry.key.as_str());
    for (name, node) in required.strings() {
        if properties.has(name) {
            continue;
        }
        let shown = truncate(name, 60);
        let what = format!("the required input `{shown}` is not in `properties`");
        let help = match closest_of(name, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("add `{shown}` to `properties`, or remove it from `required`"),
        };
        ctx.report(FindingDraft::new(&INPUT_REQUIRED_UNKNOWN, node, what).help(help));
    }
}

pub fn check<'d>(ctx: &RuleContext<'d>, argv: &'d Node) {
    let mut previous = "";
    for (text, node) in argv.strings() {
        if text.contains('$') {
            for template in Templates::of(text) {
                check_template(ctx, node, template.inner);
            }
            if let Some(open) = unclosed_template(text) {
                ctx.report(unclosed(node, open));
            }
        }
        if let Some((what, sign)) = shell_syntax(text, previous) {
            let report = FindingDraft::new(
                &ARGV_SHELL,
                node,
                format!("this argument uses {what} (`{sign}`), but it is not passed to a shell"),
            )
            .help("pass plain arguments to the binary. To run several commands, declare several tools");
            ctx.report(report);
        }
        previous = text;
    }
}

fn check_template<'d>(ctx: &RuleContext<'d>, node: &'d Node, inner: &str) {
    let mut parts = split_filters(inner);
    let reference = parts.next().unwrap_or("").trim();
    let (root, rest) = reference.split_once('.').unwrap_or((reference, ""));
    let name = rest.split(['.', '[', ' ']).next().unwrap_or(rest);
    match root {
        "input" => check_input(ctx, node, name),
        "secrets" | "secret" => ctx.report(secret(
            node,
            &format!("the secret `{}`", truncate(name, 40)),
        )),
        "env" if has_secret_name(name) => {
            ctx.report(secret(
                node,
                &format!("the secret variable `{}`", truncate(name, 40)),
            ));
        }
        _ => {
            let report = FindingDraft::new(
                &ARGV_UNKNOWN_INPUT,
                node,
                format!("unknown template `${{{}}}`", truncate(reference, 40)),
            );
            let meant = if rest.is_empty() { reference } else { name };
            ctx.report(report.help(format!(
                "write an input as `${{input.{}}}`",
                truncate(meant, 40)
            )));
        }
    }
    for filter in parts {
        let name = filter.split('(').next().unwrap_or(filter).trim();
        if FILTERS.contains(&name) {
            continue;
        }
        let report = FindingDraft::new(
            &ARGV_UNKNOWN_FILTER,
            node,
            format!("unknown filter `{}`", truncate(name, 40)),
        );
        ctx.report(report.help(match closest_of(name, FILTERS) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("expected {}", one_of(&FILTERS)),
        }));
    }
}

/// The finding for a template without its closing brace. `open` is the text after the `${`.
fn unclosed<'d>(node: &'d Node, open: &str) -> FindingDraft<'d> {
    // Only the name is shown, because the rest may contain a secret.
    let name = open.split(['|', ' ', '}']).next().unwrap_or("");
    let draft = FindingDraft::new(
        &ARGV_UNKNOWN_INPUT,
        node,
        format!("unclosed template `${{{}`", truncate(name, 40)),
    );
    draft.help(if open.contains('}') {
        "close the quote before the `}`"
    } else {
        "add the closing `}`"
    })
}

fn secret<'d>(node: &'d Node, what: &str) -> FindingDraft<'d> {
    FindingDraft::new(
        &ARGV_SECRET,
        node,
        format!("this passes {what} on the command line"),
    )
    .help("pass it to the binary as an environment variable, through `sandbox.env.pass` of the CLI.md")
}

fn check_input<'d>(ctx: &RuleContext<'d>, node: &'d Node, name: &str) {
    let Some(inputs) = ctx.root.entry("inputs").filter(|e| e.value.is_map()) else {
        return;
    };
    let properties = inputs.value.get("properties");
    if properties.is_some_and(|p| !p.is_map() || p.has(name)) {
        return;
    }
    // The schema allows properties that are not listed here.
    let open = inputs.value.entries().iter().any(|e| match &*e.key {
        "$ref" | "allOf" | "anyOf" | "oneOf" | "patternProperties" => true,
        "additionalProperties" => e.value.as_bool() != Some(false),
        _ => false,
    });
    if open {
        return;
    }
    let known: Vec<&str> = properties
        .map_or(&[][..], Node::entries)
        .iter()
        .map(|e| e.key.as_str())
        .collect();
    let report = FindingDraft::new(
        &ARGV_UNKNOWN_INPUT,
        node,
        format!("the tool has no input `{}`", truncate(name, 40)),
    )
    .nearby(inputs.key_span, "the inputs of this tool");
    ctx.report(report.help(match closest_of(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `${{input.{meant}}}`?"),
        None => format!("add `{}` to `inputs.properties`", truncate(name, 40)),
    }));
}

/// The first shell construct in an argument, and its symbol. The argument itself is not returned,
/// because it may contain a secret.
fn shell_syntax(text: &str, previous: &str) -> Option<(&'static str, &'static str)> {
    let has_sign = |text: &str| {
        text.bytes()
            .any(|b| matches!(b, b'&' | b'|' | b';' | b'<' | b'>' | b'`' | b'$'))
    };
    if !has_sign(text) {
        return None;
    }
    let outside = without_templates(text);
    let text = outside.trim();
    if !has_sign(text) {
        return None;
    }
    if text.contains("$(") {
        return Some(("a command substitution", "$(…)"));
    }
    // The value is an expression in another language, such as jq or JMESPath.
    let option = text.split('=').next().unwrap_or("");
    if takes_expression(previous) || takes_expression(option) || is_filter(text) {
        return None;
    }
    let around = |sign: char| {
        text.strip_prefix(sign)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            || text
                .strip_suffix(sign)
                .is_some_and(|rest| rest.ends_with(' '))
    };
    if text.contains('`') {
        Some(("a command substitution", "backticks"))
    } else if text.contains("&&") {
        Some(("a chain of commands", "&&"))
    } else if text.contains("||") {
        Some(("a chain of commands", "||"))
    } else if text == "|&" || text.contains(" | ") || around('|') {
        Some(("a pipe", "|"))
    } else if text.ends_with(';') || text.contains("; ") {
        Some(("a second command", ";"))
    } else if around('&') {
        Some(("a background process", "&"))
    } else {
        redirection(text).map(|sign| ("a redirection", sign))
    }
}

fn takes_expression(option: &str) -> bool {
    let name = option.trim_start_matches('-');
    option.starts_with('-')
        && (name == "q"
            || [
                "jq", "query", "filter", "jsonpath", "expr", "template", "format", "regex",
                "where", "sql",
            ]
            .iter()
            .any(|word| name.contains(word)))
}

/// Whether a text is a filter of jq and similar programs, such as `.[] | .name` or `{a: (.b | keys)}`.
fn is_filter(text: &str) -> bool {
    let mut start = text.chars();
    match (start.next(), start.next()) {
        (Some('.'), Some(next)) => next.is_ascii_alphabetic() || matches!(next, '[' | '"'),
        (Some('{' | '['), Some(next)) => !next.is_whitespace(),
        _ => false,
    }
}

/// The redirection in a text such as `>`, `2>&1`, `>out.txt` or `list > out.txt`. Texts such as
/// `<b>`, `>=1.2` and `a->b` have none.
fn redirection(text: &str) -> Option<&'static str> {
    let bare = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&');
    let to = |target: &str| !target.starts_with('=') && !target.contains('<');
    let from = |target: &str| !target.starts_with('=') && !target.contains('>');
    if bare.strip_prefix('>').is_some_and(to) || text.contains(" > ") || text.contains(" >> ") {
        Some(">")
    } else if bare.strip_prefix('<').is_some_and(from)
        || text.contains(" < ")
        || text.contains(" << ")
    {
        Some("<")
    } else {
        None
    }
}

/// Replaces each template with a letter, so that its pipes do not count as shell syntax. The text
/// after an unclosed `${` is dropped, because it has its own finding.
fn without_templates(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains('$') {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for template in Templates::of(text) {
        out.push_str(text.get(from..template.range.start).unwrap_or(""));
        out.push('x');
        from = template.range.end;
    }
    let rest = text.get(from..).unwrap_or("");
    out.push_str(rest.split("${").next().unwrap_or(rest));
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_syntax_is_distinguished_from_text() {
        for text in [
            "|",
            "&&",
            "a && b",
            "a||b",
            ";",
            "done;",
            "a; b",
            ">",
            ">>",
            "2>&1",
            ">out.txt",
            "< in",
            "<",
            "list > out",
            "$(date)",
            "`date`",
            "&",
            "sleep 1 &",
            "${input.a} | tee",
            "${input.a | default('b')} && rm",
            "&>log",
            "./run | tee",
            "[ -f x ] && rm x",
            "{ a; b; }",
            "[.a, $(date)]",
        ] {
            assert!(shell_syntax(text, "").is_some(), "{text}");
        }
        for text in [
            "a|b",
            "a&b",
            "<b>",
            ">=1.2",
            "<=3",
            "a->b",
            "${input.x | default('a && b')}",
            "$HOME",
            "x<y",
            "https://x.example/?a=1&b=2",
            "--jq=.a | .b",
            "${input.days | default(3)",
            ".items[] | .name",
            "{name, keys: (.a | keys)}",
            "[.[] | .id]",
        ] {
            assert!(shell_syntax(text, "").is_none(), "{text}");
        }
        assert!(shell_syntax(".[] | .name", "--jq").is_none());
        assert!(shell_syntax("[?a==`1`] || x", "--query").is_none());
        assert!(shell_syntax("$(date)", "--query").is_some());
    }
}
