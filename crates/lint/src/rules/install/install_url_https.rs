//! Rule `install-url-https`: an install method fetches a file without encryption.

use super::{CLI_AND_AGENT_CLI, SECURITY, without_query};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Severity};
use agentproto_manifest::Node;

pub static INSTALL_URL_HTTPS: Rule = Rule {
    slug: "install-url-https",
    title: "An install method fetches a file without encryption",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SECURITY,
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Safe,
    docs: include_str!("install-url-https.md"),
    ..Rule::BASE
};

pub(super) fn plain_http<'d>(ctx: &RuleContext<'d>, node: &'d Node, url: &str) {
    let Some((scheme, rest)) = url.split_once("://") else {
        return;
    };
    let http = scheme.eq_ignore_ascii_case("http");
    if !http && !scheme.eq_ignore_ascii_case("ftp") {
        return;
    }
    let host = rest.split(['/', ':']).next().unwrap_or("");
    if matches!(host, "localhost" | "127.0.0.1" | "[") {
        return;
    }
    let secure = format!("https://{rest}");
    let edits = http
        .then(|| edits::set_scalar(ctx.doc, node, &secure))
        .flatten();
    ctx.report(
        FindingDraft::new(
            &INSTALL_URL_HTTPS,
            node,
            format!(
                "`{}` is fetched over {}, so an attacker on the network can replace it",
                without_query(url),
                scheme.to_ascii_lowercase()
            ),
        )
        .help("use `https`")
        .fix_if(Safety::Safe, "Use https", edits),
    );
}
