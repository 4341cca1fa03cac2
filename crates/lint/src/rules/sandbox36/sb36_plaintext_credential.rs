//! A credential stands in the sandbox block.

use super::{BLOCKS, aip36};
use crate::context::{Context, Draft, Place};
use crate::rule::Rule;

pub static SB36_PLAINTEXT_CREDENTIAL: Rule = Rule {
    slug: "sb36-plaintext-credential",
    title: "A credential stands in the sandbox block",
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
            format!("{what} holds a credential in plain text"),
        )
        .help(
            "revoke it, put the new one in the vault under a slug of SECRETS.md, and name the slug \
             (`api_key_ref`) or bind it by `env.auth`",
        ),
    );
}
