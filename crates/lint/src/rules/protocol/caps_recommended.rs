//! The manifest declares no capabilities.

use super::BASE;
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Severity, Source};
use agentproto_manifest::Span;

pub static CAPS_RECOMMENDED: Rule = Rule {
    slug: "caps-recommended",
    title: "The manifest declares no capabilities",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source::aip45("Adapter guide"),
    decides: &["A45-FM-18"],
    docs: include_str!("caps-recommended.md"),
    ..BASE
};

pub(super) fn capabilities_declared(ctx: &RuleContext<'_>) {
    if ctx.root.has("capabilities") {
        return;
    }
    // If `resumable` is needed, `session-resumable-cap` or `cont-native-resume-cap` reports it.
    let needed = ctx.root.str_at(&["session", "mode"]) == Some("resumable")
        || ctx.root.str_at(&["continuation", "default"]) == Some("native-resume");
    if needed {
        return;
    }
    let open = ctx
        .doc
        .frontmatter
        .map_or(Span::default(), |front| front.open);
    ctx.report(
        FindingDraft::new(
            &CAPS_RECOMMENDED,
            open,
            "missing recommended field `capabilities`",
        )
        .help("declare at least `streaming`, `tool_calls` and `resumable`, so that hosts know them before they start the agent"),
    );
}
