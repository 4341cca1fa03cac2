//! Rule `setup-external-url`: the `url` of an external step is not an absolute URL.

use super::{BOTH, SETUP, say};
use crate::context::Context;
use crate::rule::Rule;
use crate::shape::Violation;
use agentproto_text::short;

pub static SETUP_EXTERNAL_URL: Rule = Rule {
    slug: "setup-external-url",
    words: Some(external_url),
    title: "The `url` of an external step is not an absolute URL",
    source: SETUP,
    decides: &["A29-SETUP-09"],
    doctypes: BOTH,
    docs: include_str!("setup-external-url.md"),
    ..Rule::BASE
};

fn external_url<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let shown = short(v.node.as_str().unwrap_or(""), 60);
    let help =
        "write an absolute URL, for example `https://example.com/pick?host=${input.pick-host}`";
    let message = format!("`{shown}` is not an absolute URL");
    say(ctx, v, message, help.to_owned());
}
