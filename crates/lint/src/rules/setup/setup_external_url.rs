//! Rule `setup-external-url`: the `url` of an external step is not an absolute URL.

use super::{CLI_AND_AGENT_CLI, SETUP, report};
use crate::context::RuleContext;
use crate::rule::Rule;
use crate::shape::SchemaViolation;
use agentproto_text::truncate;

pub static SETUP_EXTERNAL_URL: Rule = Rule {
    slug: "setup-external-url",
    report: Some(external_url),
    title: "The `url` of an external step is not an absolute URL",
    source: SETUP,
    decides: &["A29-SETUP-09"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("setup-external-url.md"),
    ..Rule::BASE
};

fn external_url<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let shown = truncate(v.node.as_str().unwrap_or(""), 60);
    let help =
        "write an absolute URL, for example `https://example.com/pick?host=${input.pick-host}`";
    let message = format!("`{shown}` is not an absolute URL");
    report(ctx, v, message, help.to_owned());
}
