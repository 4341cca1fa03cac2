//! Rules `setup-no-skip-if` and `setup-skipif-same-as-cmd`.

use super::{CLI_AND_AGENT_CLI, SETUP, named};
use crate::context::{FindingDraft, Location, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static SETUP_NO_SKIP_IF: Rule = Rule {
    slug: "setup-no-skip-if",
    title: "A step has no `skip_if`",
    severity: Severity::Info,
    level: Level::May,
    source: SETUP,
    decides: &["A29-SETUP-03"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("setup-no-skip-if.md"),
    ..Rule::BASE
};

pub static SETUP_SKIPIF_SAME_AS_CMD: Rule = Rule {
    slug: "setup-skipif-same-as-cmd",
    title: "`skip_if.cmd` of a step is the same as its `cmd`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SETUP,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("setup-skipif-same-as-cmd.md"),
    ..Rule::BASE
};

pub(super) fn repeatable<'d>(ctx: &RuleContext<'d>, step: &'d Node) {
    let Some(first) = step.entries().first() else {
        return;
    };
    let Some(skip) = step.get("skip_if") else {
        ctx.report(
            FindingDraft::new(
                &SETUP_NO_SKIP_IF,
                Location::Part(step, first.key_span),
                format!("{} has no `skip_if`, so hosts cannot tell whether it is already done", named(step)),
            )
            .help("add `skip_if` with a command that exits with code 0 when there is nothing left to do"),
        );
        return;
    };
    if let Some(node) = skip.get("cmd")
        && let (Some(probe), Some(command)) = (node.as_str(), step.str_at(&["cmd"]))
        && probe.split_whitespace().eq(command.split_whitespace())
    {
        ctx.report(
            FindingDraft::new(
                &SETUP_SKIPIF_SAME_AS_CMD,
                node,
                format!("{} uses its own command as `skip_if.cmd`", named(step)),
            )
            .help("check the result instead, with a command that changes nothing"),
        );
    }
}
