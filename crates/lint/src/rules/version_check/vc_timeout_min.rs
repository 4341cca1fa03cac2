//! Rule `vc-timeout-min`: `version_check.timeout_ms` is less than 100 ms.

use super::{CLI_AND_AGENT_CLI, VERSION};
use crate::context::RuleContext;
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::shape::{self, SchemaViolation};

pub static VC_TIMEOUT_MIN: Rule = Rule {
    slug: "vc-timeout-min",
    report: Some(timeout_min),
    title: "`version_check.timeout_ms` is less than 100 ms",
    source: VERSION,
    decides: &["A29-VER-07"],
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Safe,
    docs: include_str!("vc-timeout-min.md"),
    ..Rule::BASE
};

fn timeout_min<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    ctx.report(
        shape::draft(ctx, v)
            .help("set it to at least 100 ms (the default is 5000 ms)")
            .fix_if(
                Safety::Safe,
                "Raise the timeout to 100 ms",
                edits::set_raw(ctx.doc, v.node, "100"),
            ),
    );
}
