//! Rules `install-curl-no-sha256` and `install-download-no-sha256`.

use super::{CLI_AND_AGENT_CLI, METHODS, SECURITY, digest, placeholder, plain_http, without_query};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static INSTALL_CURL_NO_SHA256: Rule = Rule {
    slug: "install-curl-no-sha256",
    title: "A shell installer is not pinned by a digest",
    severity: Severity::Warning,
    level: Level::Should,
    source: METHODS,
    decides: &["A29-INSTALL-13"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("install-curl-no-sha256.md"),
    ..Rule::BASE
};

pub static INSTALL_DOWNLOAD_NO_SHA256: Rule = Rule {
    slug: "install-download-no-sha256",
    title: "A downloaded archive is not pinned by a digest",
    severity: Severity::Warning,
    level: Level::Should,
    source: SECURITY,
    decides: &["A29-SEC-02"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("install-download-no-sha256.md"),
    ..Rule::BASE
};

pub(super) fn check_fetched_file<'d>(
    ctx: &RuleContext<'d>,
    method: &'d Node,
    no_digest: &'static Rule,
) {
    let digest = method.get("verify_sha256");
    if let Some(node) = digest
        && let Some(text) = node.as_str()
        && digest::is_well_formed(text)
        && let Some(why) = digest::implausible_reason(text)
    {
        placeholder(ctx, node, why);
    }
    let Some(node) = method.get("url") else {
        return;
    };
    let Some(url) = node.as_str() else {
        return;
    };
    if digest.is_none() && !method.has("sha256") {
        let what = if no_digest == &INSTALL_CURL_NO_SHA256 {
            "script"
        } else {
            "archive"
        };
        let message = format!("the {what} `{}` has no `verify_sha256`", without_query(url));
        ctx.report(
            FindingDraft::new(no_digest, node, message)
                .help("add `verify_sha256` with the digest that `sha256sum FILE` prints"),
        );
    }
    plain_http(ctx, node, url);
}
