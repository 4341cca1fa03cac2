//! An install method that the spec does not know.

use super::{BOTH, METHODS};
use crate::context::{Context, Draft};
use crate::rule::{Rule, Severity};
use crate::shape::Violation;
use agentproto_text::{closest_of, one_of, short};

pub static INSTALL_METHOD_UNKNOWN: Rule = Rule {
    slug: "install-method-unknown",
    words: Some(unknown_method),
    title: "An install method that the spec does not know",
    source: METHODS,
    decides: &["A29-INSTALL-19", "A29-INSTALL-20", "A45-FM-07"],
    doctypes: BOTH,
    docs: include_str!("install-method-unknown.md"),
    ..Rule::BASE
};

/// What the method of another tool or spec is called here.
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

fn unknown_method<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let node = violation.node;
    let found = short(ctx.doc.slice(node.span), 40);
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
    let allowed = format!("allowed: {}", one_of(&violation.expected));
    let help = match meant {
        Some(meant) => format!("did you mean `{meant}`? ({allowed})"),
        None => allowed,
    };
    let draft = Draft::new(
        &INSTALL_METHOD_UNKNOWN,
        node,
        format!("there is no install method `{found}`"),
    );
    let draft = match experimental {
        Some(entry) => draft
            .severity(Severity::Warning)
            .nearby(entry.key_span, "marked experimental: hosts skip it")
            .help(help),
        None => draft.help(help),
    };
    ctx.report(draft);
}
