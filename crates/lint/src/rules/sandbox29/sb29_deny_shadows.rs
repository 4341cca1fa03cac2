//! A granted path is completely denied.

use super::values::literal_head;
use super::{BOTH, SANDBOX};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::{Node, globs};

pub static DENY_SHADOWS: Rule = Rule {
    slug: "sb29-deny-shadows",
    title: "A granted path is completely denied",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SANDBOX,
    decides: &["A29-SBX-07"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    docs: include_str!("sb29-deny-shadows.md"),
    ..Rule::BASE
};

pub(super) fn check_shadow<'d>(
    ctx: &RuleContext<'d>,
    list: &str,
    glob: &str,
    node: &'d Node,
    deny: &'d Node,
) {
    let head = literal_head(glob);
    for (denied, place) in deny.strings() {
        // A pattern that covers a glob has the same literal prefix. This cheap test avoids most of
        // the expensive comparisons.
        let start = literal_head(denied).trim_end_matches('/');
        let may_cover = head.starts_with(start) || glob.starts_with('$') || denied.starts_with('$');
        if may_cover && globs::covers(denied, glob) {
            let report = FindingDraft::new(
                &DENY_SHADOWS,
                node,
                format!("`fs.{list}` grants `{glob}`, but `fs.deny` denies all of it"),
            )
            .nearby(place.span, "denied here; `deny` overrides grants")
            .help("remove the grant, or make the deny entry narrower");
            ctx.report(report);
            return;
        }
    }
}
