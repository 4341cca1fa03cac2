//! Rules `vc-range-valid`, `vc-range-unsatisfiable` and `vc-range-unbounded`.

use super::{BOTH, VERSION};
use crate::context::{Context, Draft};
use crate::rule::{FixKind, Level, Rule, Severity};
use agentproto_manifest::Node;
use agentproto_manifest::range::Range;
use agentproto_text::short;

pub static VC_RANGE_VALID: Rule = Rule {
    slug: "vc-range-valid",
    title: "`version_check.range` is not a valid npm version range",
    source: VERSION,
    decides: &["A29-VER-05"],
    doctypes: BOTH,
    docs: include_str!("vc-range-valid.md"),
    ..Rule::BASE
};

pub static VC_RANGE_UNSATISFIABLE: Rule = Rule {
    slug: "vc-range-unsatisfiable",
    title: "No version satisfies `version_check.range`",
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    docs: include_str!("vc-range-unsatisfiable.md"),
    ..Rule::BASE
};

pub static VC_RANGE_UNBOUNDED: Rule = Rule {
    slug: "vc-range-unbounded",
    title: "`version_check.range` has no upper bound",
    severity: Severity::Info,
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    fix: FixKind::Suggest,
    docs: include_str!("vc-range-unbounded.md"),
    ..Rule::BASE
};

pub(super) fn range<'d>(ctx: &Context<'d>, node: &'d Node, text: &str) {
    let range = match Range::parse(text) {
        Ok(range) => range,
        Err(error) => {
            let help = if text.contains(',') {
                "put a space between the bounds, not a comma: `>=1.2.0 <2.0.0`"
            } else if text.contains("&&") {
                "remove `&&`: bounds that are separated by spaces must all hold"
            } else {
                "write bounds, for example `>=1.2.0 <2.0.0`, `^1.2.0` or `1.x || 2.x`"
            };
            let shown = short(&error.to_string(), 80);
            ctx.report(
                Draft::new(
                    &VC_RANGE_VALID,
                    node,
                    format!("`version_check.range` is not a valid npm version range: {shown}"),
                )
                .help(help),
            );
            return;
        }
    };
    if range.is_empty() {
        ctx.report(
            Draft::new(
                &VC_RANGE_UNSATISFIABLE,
                node,
                format!("no version satisfies `{}`", short(text, 60)),
            )
            .help(
                "write `||` between alternatives: bounds that are separated by spaces must all hold",
            ),
        );
    } else if range.is_unbounded() {
        ctx.report(
            Draft::new(
                &VC_RANGE_UNBOUNDED,
                node,
                format!("`{}` accepts every later major version", short(text, 60)),
            )
            .help(match range.next_major() {
                Some(next) => format!("add an upper bound, such as `<{next}.0.0`"),
                None => "add a lower and an upper bound, for example `>=1.2.0 <2.0.0`".to_owned(),
            }),
        );
    }
}
