//! Rule `setup-persist-on-oauth`: an oauth step has `persist`.

use super::{BOTH, SETUP, named, say};
use crate::context::Context;
use crate::rule::{FixKind, Rule};
use crate::shape::Violation;

pub static SETUP_PERSIST_ON_OAUTH: Rule = Rule {
    slug: "setup-persist-on-oauth",
    words: Some(persist_on_oauth),
    title: "An oauth step has `persist`",
    source: SETUP,
    decides: &["A29-SETUP-15"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    docs: include_str!("setup-persist-on-oauth.md"),
    ..Rule::BASE
};

fn persist_on_oauth<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let message = format!("{} of kind `oauth` cannot have `persist`", named(v.node));
    let help = "remove it: the tokens are always stored in `secret_slug`";
    say(ctx, v, message, help.to_owned());
}
