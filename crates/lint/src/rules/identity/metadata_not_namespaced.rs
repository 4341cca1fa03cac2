//! A metadata key has no namespace.

use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Severity, Source};
use agentproto_manifest::{Doctype, Node};
use agentproto_text::truncate;

pub static METADATA_NOT_NAMESPACED: Rule = Rule {
    slug: "metadata-not-namespaced",
    title: "A metadata key has no namespace",
    severity: Severity::Info,
    level: Level::May,
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-15"],
    doctypes: &[Doctype::Cli],
    docs: include_str!("metadata-not-namespaced.md"),
    ..Rule::BASE
};

pub(super) fn metadata(ctx: &RuleContext<'_>) {
    for entry in ctx.root.get("metadata").map_or(&[][..], Node::entries) {
        if entry.value.is_map() || entry.key.contains(['.', '/', ':']) {
            continue;
        }
        let message = format!("`metadata.{}` has no namespace", truncate(&entry.key, 60));
        ctx.report(
            FindingDraft::new(&METADATA_NOT_NAMESPACED, entry, message).help(format!(
                "move it below a key that names the tool that reads it: `metadata.TOOL.{}`",
                truncate(&entry.key, 60)
            )),
        );
    }
}
