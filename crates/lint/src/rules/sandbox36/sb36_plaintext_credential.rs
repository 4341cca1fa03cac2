//! The sandbox block contains a credential in plain text.

use super::{BLOCKS, aip36};
use crate::context::{Context, Draft, Place};
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

pub(super) fn plaintext<'d>(ctx: &Context<'d>, place: Place<'d>, what: &str) {
    ctx.report(
        Draft::new(
            &SB36_PLAINTEXT_CREDENTIAL,
            place,
            format!("{what} contains a credential in plain text"),
        )
        .help(
            "revoke it and store the new one in the vault under a slug of SECRETS.md; then refer to \
             the slug (`api_key_ref`) or bind it with `env.auth`",
        ),
    );
}
