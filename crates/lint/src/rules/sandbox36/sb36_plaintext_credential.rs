//! The sandbox block contains a credential in plain text.

use super::{BLOCKS, aip36};
use crate::context::{FindingDraft, Location, RuleContext};
use crate::rule::Rule;

pub static SB36_PLAINTEXT_CREDENTIAL: Rule = Rule {
    slug: "sb36-plaintext-credential",
    title: "The sandbox block contains a credential in plain text",
    source: aip36("Conformance rules"),
    decides: &["A45-SBX-02"],
    doctypes: BLOCKS,
    docs: include_str!("sb36-plaintext-credential.md"),
    ..Rule::BASE
};

pub(super) fn plaintext<'d>(ctx: &RuleContext<'d>, place: Location<'d>, what: &str) {
    ctx.report(
        FindingDraft::new(
            &SB36_PLAINTEXT_CREDENTIAL,
            place,
            format!("{what} contains a credential in plain text"),
        )
        .help(
            "replace it with a reference such as `api_key_ref: SLUG`, where SLUG is a secret in \
             SECRETS.md, or list its variable in `env.auth.state.env`. Revoke the credential if \
             it is real",
        ),
    );
}
