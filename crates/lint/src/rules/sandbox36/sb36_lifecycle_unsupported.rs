//! The provider does not support pausing.

use super::{BLOCKS, OLD_PAUSE_KEYS, aip36};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static SB36_LIFECYCLE_UNSUPPORTED: Rule = Rule {
    slug: "sb36-lifecycle-unsupported",
    title: "The provider does not support pausing",
    severity: Severity::Info,
    level: Level::May,
    source: aip36("Conformance rules"),
    doctypes: BLOCKS,
    scope: Scope::CrossField,
    docs: include_str!("sb36-lifecycle-unsupported.md"),
    ..Rule::BASE
};

pub(super) fn pause<'d>(ctx: &RuleContext<'d>, block: &'d Node, provider: &str) {
    if !matches!(
        provider,
        "local" | "mastra-e2b" | "mastra-blaxel" | "node-permission"
    ) {
        return;
    }
    let Some(lifecycle) = block.get("lifecycle") else {
        return;
    };
    let names = ["pause_after_idle"].into_iter().chain(OLD_PAUSE_KEYS);
    if let Some(entry) = names.into_iter().find_map(|name| lifecycle.entry(name)) {
        ctx.report(
            FindingDraft::new(
                &SB36_LIFECYCLE_UNSUPPORTED,
                entry,
                format!("`{provider}` cannot pause a sandbox and ignores this field"),
            )
            .help("remove it, or choose a provider that can: `mastra-modal` or `mastra-daytona`"),
        );
    }
}
