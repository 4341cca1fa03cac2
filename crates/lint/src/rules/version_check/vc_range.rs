//! Rules `vc-range-valid`, `vc-range-unsatisfiable` and `vc-range-unbounded`.

use super::{CLI_AND_AGENT_CLI, VERSION};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Severity};
use agentproto_manifest::Node;
use agentproto_manifest::range::Range;
use agentproto_text::truncate;

pub static VC_RANGE_VALID: Rule = Rule {
    slug: "vc-range-valid",
    title: "`version_check.range` is not a valid npm version range",
    source: VERSION,
    decides: &["A29-VER-05"],
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("vc-range-valid.md"),
    ..Rule::BASE
};

pub static VC_RANGE_UNSATISFIABLE: Rule = Rule {
    slug: "vc-range-unsatisfiable",
    title: "No version satisfies `version_check.range`",
    level: Level::Derived,
    source: VERSION,
    doctypes: CLI_AND_AGENT_CLI,
    docs: include_str!("vc-range-unsatisfiable.md"),
    ..Rule::BASE
};

pub static VC_RANGE_UNBOUNDED: Rule = Rule {
    slug: "vc-range-unbounded",
    title: "`version_check.range` has no upper bound",
    severity: Severity::Info,
    level: Level::Derived,
    source: VERSION,
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Suggest,
    docs: include_str!("vc-range-unbounded.md"),
    ..Rule::BASE
};

pub(super) fn range<'d>(ctx: &RuleContext<'d>, node: &'d Node, text: &str) {
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
            let shown = truncate(&error.to_string(), 80);
            ctx.report(
                FindingDraft::new(
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
            FindingDraft::new(
                &VC_RANGE_UNSATISFIABLE,
                node,
                format!("no version satisfies `{}`", truncate(text, 60)),
            )
            .help(match swapped_bounds(text) {
                Some(swapped) => {
                    format!("swap the bounds (`{swapped}`), or write `||` between alternatives")
                }
                None => "write `||` between alternatives: bounds that are separated by spaces must all hold".to_owned(),
            }),
        );
    } else if range.is_unbounded() {
        ctx.report(
            FindingDraft::new(
                &VC_RANGE_UNBOUNDED,
                node,
                format!("`{}` accepts every later major version", truncate(text, 60)),
            )
            .help(match range.next_major() {
                Some(next) => format!("add an upper bound, such as `<{next}.0.0`"),
                None => "add a lower and an upper bound, for example `>=1.2.0 <2.0.0`".to_owned(),
            }),
        );
    }
}

/// The range with the versions of its two bounds swapped: `>=3 <2` → `>=2 <3`. `None` if the range
/// has another form, or is still empty.
fn swapped_bounds(text: &str) -> Option<String> {
    let mut parts = text.split_whitespace();
    let (first, second) = (parts.next()?, parts.next()?);
    if parts.next().is_some() || !first.starts_with('>') || !second.starts_with('<') {
        return None;
    }
    let split = |bound: &str| {
        let at = bound.find(|c| !matches!(c, '<' | '>' | '='))?;
        Some((bound[..at].to_owned(), bound[at..].to_owned()))
    };
    let ((from, high), (to, low)) = (split(first)?, split(second)?);
    let swapped = format!("{from}{low} {to}{high}");
    let holds = Range::parse(&swapped).is_ok_and(|range| !range.is_empty());
    (holds && text.len() <= 60).then_some(swapped)
}

#[cfg(test)]
mod tests {
    use super::swapped_bounds;

    #[test]
    fn reversed_bounds_are_swapped() {
        let of = |text: &str| swapped_bounds(text);
        assert_eq!(of(">=3.0.0 <2.0.0").as_deref(), Some(">=2.0.0 <3.0.0"));
        // `>1` excludes all of version 1, so `>1 <2` is also empty.
        assert_eq!(of(">2 <1"), None);
        assert_eq!(of("1.x 2.x"), None);
        assert_eq!(of(">1 <1"), None);
        assert_eq!(of("> <"), None);
    }
}
