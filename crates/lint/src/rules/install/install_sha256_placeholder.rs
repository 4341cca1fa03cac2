//! Rule `install-sha256-placeholder`: `verify_sha256` is a placeholder.

use super::{CLI_AND_AGENT_CLI, METHODS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::Rule;
use agentproto_manifest::Node;

pub static INSTALL_SHA256_PLACEHOLDER: Rule = Rule {
    slug: "install-sha256-placeholder",
    title: "`verify_sha256` is a placeholder",
    source: METHODS,
    decides: &["A29-INSTALL-12", "A29-INSTALL-14"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("install-sha256-placeholder.md"),
    ..Rule::BASE
};

pub(super) fn placeholder<'d>(ctx: &RuleContext<'d>, node: &'d Node, why: &str) {
    ctx.report(
        FindingDraft::new(
            &INSTALL_SHA256_PLACEHOLDER,
            node,
            format!("this digest {why}"),
        )
        .help("download the file, verify it, and write the digest that `sha256sum FILE` prints"),
    );
}
