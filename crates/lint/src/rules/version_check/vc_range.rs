//! `vc-range-valid`, `vc-range-unsatisfiable`, `vc-range-unbounded`.

use super::{BOTH, VERSION};
use crate::context::{Context, Draft};
use crate::rule::{FixKind, Level, Rule, Severity};
use agentproto_manifest::Node;
use agentproto_manifest::range::Range;
use agentproto_text::short;

pub static VC_RANGE_VALID: Rule = Rule {
    slug: "vc-range-valid",
    title: "The version range is not an npm range",
    source: VERSION,
    decides: &["A29-VER-05"],
    doctypes: BOTH,
    docs: include_str!("vc-range-valid.md"),
    ..Rule::BASE
};

pub static VC_RANGE_UNSATISFIABLE: Rule = Rule {
    slug: "vc-range-unsatisfiable",
    title: "No version can be in the range",
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    docs: include_str!("vc-range-unsatisfiable.md"),
    ..Rule::BASE
};

pub static VC_RANGE_UNBOUNDED: Rule = Rule {
    slug: "vc-range-unbounded",
    title: "The version range has no upper bound",
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
                "bounds that stand side by side all have to hold; leave `&&` out"
            } else {
                "write bounds, as in `>=1.2.0 <2.0.0`, `^1.2.0` or `1.x || 2.x`"
            };
            let shown = short(&error.to_string(), 80);
            ctx.report(
                Draft::new(
                    &VC_RANGE_VALID,
                    node,
                    format!("`version_check.range` is not an npm version range: {shown}"),
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
                "bounds that stand side by side all have to hold; write `||` between alternatives",
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
                None => "say from which version to which, as in `>=1.2.0 <2.0.0`".to_owned(),
            }),
        );
    }
}
