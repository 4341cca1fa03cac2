//! An ingress entry is not a URL.

use super::{BOTH, SANDBOX};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Severity};
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static INGRESS_URL: Rule = Rule {
    slug: "sb29-ingress-url",
    title: "An ingress entry is not a URL",
    severity: Severity::Warning,
    level: Level::May,
    source: SANDBOX,
    decides: &["A29-SBX-04"],
    doctypes: BOTH,
    docs: include_str!("sb29-ingress-url.md"),
    ..Rule::BASE
};

pub(super) fn check_ingress<'d>(ctx: &RuleContext<'d>, ingress: &'d Node) {
    for (url, node) in ingress.strings() {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if scheme.is_empty() {
            let report = FindingDraft::new(
                &INGRESS_URL,
                node,
                format!("the ingress entry `{}` is not a URL", truncate(url, 60)),
            )
            .help(
                "write the URL that must be reachable, for example `https://callback.example.com/cli`",
            );
            ctx.report(report);
        }
    }
}
