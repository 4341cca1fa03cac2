//! Rule `setup-persist-on-oauth`: an oauth step has `persist`.

use super::{CLI_AND_AGENT_CLI, SETUP, named, report};
use crate::context::RuleContext;
use crate::rule::{FixKind, Rule};
use crate::shape::SchemaViolation;

pub static SETUP_PERSIST_ON_OAUTH: Rule = Rule {
    slug: "setup-persist-on-oauth",
    report: Some(persist_on_oauth),
    title: "An oauth step has `persist`",
    source: SETUP,
    decides: &["A29-SETUP-15"],
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Suggest,
    docs: include_str!("setup-persist-on-oauth.md"),
    ..Rule::BASE
};

fn persist_on_oauth<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let message = format!("{} of kind `oauth` cannot have `persist`", named(v.node));
    let help = "remove it: the tokens are always stored in `secret_slug`";
    report(ctx, v, message, help.to_owned());
}
