//! `network.egress` allows every host.

use super::values::{egress_error, is_everything};
use super::{BOTH, EGRESS_CIDR_PORT_SCHEME, SANDBOX, egress_report};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Severity};
use agentproto_manifest::Node;

pub static EGRESS_WILDCARD: Rule = Rule {
    slug: "sb29-egress-wildcard",
    title: "`network.egress` allows every host",
    severity: Severity::Warning,
    level: Level::Should,
    source: SANDBOX,
    decides: &["A29-SBX-02"],
    doctypes: BOTH,
    docs: include_str!("sb29-egress-wildcard.md"),
    ..Rule::BASE
};

pub(super) fn check_egress<'d>(ctx: &RuleContext<'d>, egress: &'d Node) {
    for (host, node) in egress.strings() {
        if is_everything(host) {
            let report = FindingDraft::new(
                &EGRESS_WILDCARD,
                node,
                format!("`{host}` allows outbound traffic to every host"),
            )
            .help(
                "list the hosts that the command connects to, or a pattern such as `*.example.com`",
            );
            ctx.report(report);
        } else if let Some(error) = egress_error(host) {
            ctx.report(egress_report(&EGRESS_CIDR_PORT_SCHEME, node, host, error));
        }
    }
}
