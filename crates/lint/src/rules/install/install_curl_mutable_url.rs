//! Rule `install-curl-mutable-url`: the URL of an installer names a branch or a moving tag.

use super::{CLI_AND_AGENT_CLI, METHODS};
use crate::context::{FindingDraft, Location, RuleContext};
use crate::rule::{Level, Rule, Severity};
use agentproto_manifest::{Node, Span, Style};

pub static INSTALL_CURL_MUTABLE_URL: Rule = Rule {
    slug: "install-curl-mutable-url",
    title: "The URL of an installer names a branch or a moving tag",
    severity: Severity::Info,
    level: Level::Derived,
    source: METHODS,
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("install-curl-mutable-url.md"),
    ..Rule::BASE
};

/// Common names of branches and moving tags.
const MOVING_REFS: [&str; 9] = [
    "main", "master", "HEAD", "head", "trunk", "develop", "latest", "nightly", "next",
];

pub(super) fn mutable_url<'d>(ctx: &RuleContext<'d>, method: &'d Node) {
    let Some(node) = method.get("url") else {
        return;
    };
    let Some(url) = node.as_str() else {
        return;
    };
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.split(['?', '#']).next().unwrap_or("");
    let moving = path
        .split('/')
        .skip(1)
        .find(|part| MOVING_REFS.contains(part))
        .or_else(|| path.contains("/refs/heads/").then_some("refs/heads"));
    let Some(part) = moving else {
        return;
    };
    ctx.report(
        FindingDraft::new(
            &INSTALL_CURL_MUTABLE_URL,
            part_of(ctx, node, &format!("/{part}")),
            format!(
                "`{part}` is not a fixed version: the script at this URL can change without notice"
            ),
        )
        .help("use the URL of a release tag or a commit, so that the digest stays valid"),
    );
}

/// The place of `piece` in a one-line scalar, without the leading slash.
fn part_of<'d>(ctx: &RuleContext<'d>, node: &'d Node, piece: &str) -> Location<'d> {
    let one_line = matches!(
        node.style,
        Style::Plain | Style::SingleQuoted | Style::DoubleQuoted
    );
    match ctx.doc.slice(node.span).find(piece).filter(|_| one_line) {
        Some(at) => {
            let start = node.span.start as usize + at + 1;
            Location::Part(node, Span::new(start, start + piece.len() - 1))
        }
        None => Location::Value(node),
    }
}
