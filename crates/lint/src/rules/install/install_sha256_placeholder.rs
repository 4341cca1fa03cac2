//! Rule `install-sha256-placeholder`: `verify_sha256` is a placeholder.

use super::{BOTH, METHODS};
use crate::context::{Context, Draft};
use crate::rule::Rule;
use agentproto_manifest::Node;

pub static INSTALL_SHA256_PLACEHOLDER: Rule = Rule {
    slug: "install-sha256-placeholder",
    title: "`verify_sha256` is a placeholder",
    source: METHODS,
    decides: &["A29-INSTALL-12", "A29-INSTALL-14"],
    doctypes: BOTH,
    docs: include_str!("install-sha256-placeholder.md"),
    ..Rule::BASE
};

pub(super) fn placeholder<'d>(ctx: &Context<'d>, node: &'d Node, why: &str) {
    ctx.report(
        Draft::new(
            &INSTALL_SHA256_PLACEHOLDER,
            node,
            format!("this digest {why}"),
        )
        .help("download the file, verify it, and write the digest that `sha256sum FILE` prints"),
    );
}
