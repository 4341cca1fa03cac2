//! Rule `install-url-uri`: the URL of an install method is not an absolute URI.

use super::{CLI_AND_AGENT_CLI, METHODS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::Rule;
use agentproto_manifest::Node;

pub static INSTALL_URL_URI: Rule = Rule {
    slug: "install-url-uri",
    report: Some(|ctx, v| bad_url(ctx, v.node)),
    title: "The URL of an install method is not an absolute URI",
    source: METHODS,
    decides: &["A29-INSTALL-12", "A29-INSTALL-14"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("install-url-uri.md"),
    ..Rule::BASE
};

fn bad_url<'d>(ctx: &RuleContext<'d>, node: &'d Node) {
    let url = node.as_str().unwrap_or("");
    let (message, help) = if url.is_empty() {
        ("the URL is empty", "write the absolute URL to fetch")
    } else if url.contains(char::is_whitespace) {
        ("the URL contains whitespace", "encode spaces as `%20`")
    } else if !url.contains("://") {
        (
            "the URL has no scheme",
            "add the scheme, for example `https://example.com/install.sh`",
        )
    } else {
        (
            "this is not a valid URL",
            "encode characters that are not allowed in a URL, for example `{` as `%7B`",
        )
    };
    ctx.report(FindingDraft::new(&INSTALL_URL_URI, node, message).help(help));
}
