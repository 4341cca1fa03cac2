//! Rule `setup-persist-exactly-one`: `persist` does not have exactly one target.

use super::{CLI_AND_AGENT_CLI, SETUP};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::Rule;
use crate::shape::SchemaViolation;

pub static SETUP_PERSIST_EXACTLY_ONE: Rule = Rule {
    slug: "setup-persist-exactly-one",
    report: Some(exactly_one),
    title: "`persist` does not have exactly one target",
    source: SETUP,
    decides: &["A29-SETUP-16"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("setup-persist-exactly-one.md"),
    ..Rule::BASE
};

const TARGETS: [&str; 3] = ["env", "secret_slug", "cmd"];

fn exactly_one<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let found: Vec<&str> = TARGETS.into_iter().filter(|t| v.node.has(t)).collect();
    // A misspelled key is already reported as an unknown field.
    if found.is_empty() && !v.node.entries().is_empty() {
        return;
    }
    let message = match found.as_slice() {
        [] => "`persist` has no target".to_owned(),
        _ => format!(
            "`persist` must have one target, found {}: {}",
            found.len(),
            found.join(", ")
        ),
    };
    ctx.report(
        FindingDraft::new(v.rule, v.location.clone(), message)
            .help("use exactly one of `env`, `secret_slug` and `cmd`"),
    );
}
