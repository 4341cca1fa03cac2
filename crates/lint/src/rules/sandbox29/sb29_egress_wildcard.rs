//! `network.egress` allows every host.

use super::words::{egress_fault, is_everything};
use super::{BOTH, SANDBOX, egress_report};
use crate::context::{Context, Draft};
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

pub(super) fn check_egress<'d>(ctx: &Context<'d>, egress: &'d Node) {
    for (host, node) in egress.strings() {
        if is_everything(host) {
            let report = Draft::new(
                &EGRESS_WILDCARD,
                node,
                format!("`{host}` allows outbound traffic to every host"),
            )
            .help("list the hosts that the command connects to, or a glob below their domain");
            ctx.report(report);
        } else if let Some(fault) = egress_fault(host) {
            ctx.report(egress_report(node, host, fault));
        }
    }
}
