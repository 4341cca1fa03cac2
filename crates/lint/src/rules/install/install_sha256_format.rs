//! Rule `install-sha256-format`: `verify_sha256` is not 64 lower-case hex digits.

use super::{CLI_AND_AGENT_CLI, METHODS, digest, placeholder};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use agentproto_manifest::Node;

pub static INSTALL_SHA256_FORMAT: Rule = Rule {
    slug: "install-sha256-format",
    report: Some(|ctx, v| bad_digest(ctx, v.node)),
    title: "`verify_sha256` is not 64 lower-case hex digits",
    source: METHODS,
    decides: &["A29-INSTALL-12", "A29-INSTALL-14"],
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Safe,
    docs: include_str!("install-sha256-format.md"),
    ..Rule::BASE
};

fn bad_digest<'d>(ctx: &RuleContext<'d>, node: &'d Node) {
    let text = node.as_str().unwrap_or("");
    if let Some(why) = digest::placeholder_reason(text) {
        return placeholder(ctx, node, why);
    }
    let draft = |message: String| FindingDraft::new(&INSTALL_SHA256_FORMAT, node, message);
    if let Some(hex) = digest::normalized(text) {
        let edits = edits::set_scalar(ctx.doc, node, &hex);
        return ctx.report(
            draft("the digest is not written as 64 lower-case hex digits".to_owned())
                .help(format!("write `{hex}`"))
                .fix_if(Safety::Safe, "Write the digest in lower-case hex", edits),
        );
    }
    let length = text.chars().count();
    let message = if length == 64 {
        "the digest contains characters other than 0-9 and a-f".to_owned()
    } else {
        format!("a SHA-256 digest has 64 hex digits, found {length} characters")
    };
    ctx.report(draft(message).help("compute the digest again: `sha256sum FILE`"));
}
