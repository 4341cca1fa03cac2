//! The idle timeout of pinned sessions is below one second.

use super::BASE;
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Rule};
use crate::shape::SchemaViolation;

pub static CONT_IDLE_MIN: Rule = Rule {
    slug: "cont-idle-min",
    report: Some(idle_min),
    title: "The idle timeout of pinned sessions is below one second",
    decides: &["A45-CONT-12"],
    fix: FixKind::Suggest,
    docs: include_str!("cont-idle-min.md"),
    ..BASE
};

fn idle_min<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let value = ctx.doc.slice(v.node.span);
    ctx.report(
        FindingDraft::new(
            &CONT_IDLE_MIN,
            v.node,
            format!("`pinned_session.idle_timeout_ms` must be at least 1000, found {value}"),
        )
        .help("the value is in milliseconds: one second is 1000, and half an hour is 1800000"),
    );
}
