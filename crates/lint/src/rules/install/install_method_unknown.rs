//! Rule `install-method-unknown`: an install method is unknown.

use super::{CLI_AND_AGENT_CLI, METHODS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Severity};
use crate::shape::SchemaViolation;
use agentproto_text::{closest_of, one_of, truncate};

pub static INSTALL_METHOD_UNKNOWN: Rule = Rule {
    slug: "install-method-unknown",
    report: Some(unknown_method),
    title: "An install method is unknown",
    source: METHODS,
    decides: &["A29-INSTALL-19", "A29-INSTALL-20", "A45-FM-07"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("install-method-unknown.md"),
    ..Rule::BASE
};

/// Method names of other tools and specs, with the AIP-29 method for each.
const METHOD_ALIASES: [(&str, &str); 17] = [
    ("homebrew", "brew"),
    ("apt-get", "apt"),
    ("deb", "apt"),
    ("yum", "dnf"),
    ("rpm", "dnf"),
    ("chocolatey", "choco"),
    ("winget", "choco"),
    ("npx", "npm"),
    ("pnpm", "npm"),
    ("yarn", "npm"),
    ("pip3", "pip"),
    ("pipx", "pip"),
    ("uv", "pip"),
    ("script", "curl"),
    ("wget", "curl"),
    ("binary", "download"),
    ("bundled", "vendored"),
];

fn unknown_method<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let node = violation.node;
    let found = truncate(ctx.doc.slice(node.span), 40);
    let experimental = ctx
        .doc
        .parent_of(node)
        .and_then(|method| method.entry("experimental"))
        .filter(|entry| entry.value.is_true());
    let meant = node.as_str().and_then(|word| {
        let alias = METHOD_ALIASES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(word));
        match alias {
            Some((_, method)) => Some(*method),
            None => closest_of(word, violation.expected.iter().map(String::as_str)),
        }
    });
    let expected = format!("expected {}", one_of(&violation.expected));
    let help = match meant {
        Some(meant) => format!("did you mean `{meant}`? ({expected})"),
        None => expected,
    };
    let draft = FindingDraft::new(
        &INSTALL_METHOD_UNKNOWN,
        node,
        format!("unknown install method `{found}`"),
    );
    let draft = match experimental {
        Some(entry) => draft
            .severity(Severity::Warning)
            .nearby(
                entry.key_span,
                "hosts skip it, because it is marked experimental",
            )
            .help(help),
        None => draft.help(help),
    };
    ctx.report(draft);
}
