//! AIP-36 does not list the provider.

use super::{BLOCKS, aip36};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Severity};
use agentproto_manifest::{Node, SANDBOX_PROVIDERS};
use agentproto_text::{closest_of, one_of};

pub static SB36_PROVIDER_KNOWN: Rule = Rule {
    slug: "sb36-provider-known",
    title: "AIP-36 does not list the provider",
    severity: Severity::Info,
    level: Level::May,
    source: aip36("Provider enumerated set"),
    decides: &["A45-SBX-03"],
    doctypes: BLOCKS,
    fix: FixKind::Suggest,
    docs: include_str!("sb36-provider-known.md"),
    ..Rule::BASE
};

pub(super) fn known_provider<'d>(ctx: &RuleContext<'d>, node: &'d Node, name: &str) {
    if SANDBOX_PROVIDERS.contains(&name) || name.is_empty() {
        return;
    }
    let listed = one_of(&SANDBOX_PROVIDERS);
    let help = match closest_of(name, SANDBOX_PROVIDERS) {
        Some(meant) => format!("did you mean `{meant}`? (expected {listed})"),
        None => format!("use {listed}, or keep it if your host registers this provider"),
    };
    ctx.report(
        FindingDraft::new(
            &SB36_PROVIDER_KNOWN,
            node,
            format!("AIP-36 does not list the provider `{name}`"),
        )
        .help(help),
    );
}
