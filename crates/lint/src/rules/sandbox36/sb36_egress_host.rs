//! An egress entry of an AIP-36 sandbox is not a host name or a glob.

use super::{BLOCKS, aip36};
use crate::context::RuleContext;
use crate::rule::{FixKind, Level, Rule, Severity};
use crate::rules::sandbox29::{egress_error, egress_report};
use agentproto_manifest::Node;

pub static SB36_EGRESS_HOST: Rule = Rule {
    slug: "sb36-egress-host",
    title: "An egress entry is not a host name or a glob",
    severity: Severity::Warning,
    level: Level::Derived,
    source: aip36("The `sandbox` block"),
    doctypes: BLOCKS,
    fix: FixKind::Suggest,
    docs: include_str!("sb36-egress-host.md"),
    ..Rule::BASE
};

pub(super) fn egress<'d>(ctx: &RuleContext<'d>, block: &'d Node) {
    let Some(list) = block.at(&["network", "egress"]) else {
        return;
    };
    for (host, node) in list.strings() {
        if let Some(error) = egress_error(host) {
            ctx.report(egress_report(&SB36_EGRESS_HOST, node, host, error));
        }
    }
}
