//! Rule `install-empty`: `install` lists no method.

use super::{CLI_AND_AGENT_CLI, REQUIRED};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::Rule;
use crate::shape::SchemaViolation;

pub static INSTALL_EMPTY: Rule = Rule {
    slug: "install-empty",
    report: Some(no_method),
    title: "`install` lists no method",
    source: REQUIRED,
    decides: &["A29-REQ-09", "A45-FM-07"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("install-empty.md"),
    ..Rule::BASE
};

fn no_method<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    ctx.report(
        FindingDraft::new(v.rule, v.node, "`install` is empty").help(
            "list at least one method, the preferred one first, for example `- { method: brew, package: my-tool }`",
        ),
    );
}
