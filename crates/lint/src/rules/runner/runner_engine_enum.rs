//! AIP-17 does not define the engine.

use super::DOCTYPES;
use crate::context::RuleContext;
use crate::rule::{FixKind, Rule, Source};
use crate::shape::{SchemaViolation, draft};

pub static ENGINE_ENUM: Rule = Rule {
    slug: "runner-engine-enum",
    report: Some(unknown_engine),
    title: "AIP-17 does not define the engine",
    source: Source {
        spec: "AIP-17",
        section: "runner.engine",
    },
    decides: &["A29-OPT-05", "A29-COMPAT-04"],
    doctypes: DOCTYPES,
    fix: FixKind::Suggest,
    docs: include_str!("runner-engine-enum.md"),
    ..Rule::BASE
};

fn unknown_engine<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let Some(word) = violation.node.as_str() else {
        return ctx.report(draft(ctx, violation));
    };
    let container = [
        "docker",
        "podman",
        "container",
        "containerd",
        "oci",
        "e2b",
        "modal",
        "fly",
    ];
    let report = draft(ctx, violation);
    let lower = word.to_ascii_lowercase();
    ctx.report(if container.contains(&lower.as_str()) {
        report.help("for a container, use `engine: sandbox` and put the template in `image`")
    } else if lower == "process" || lower == "local" || lower == "host" {
        report.help("for a separate process on the host, use `engine: subprocess`")
    } else {
        report
    });
}
