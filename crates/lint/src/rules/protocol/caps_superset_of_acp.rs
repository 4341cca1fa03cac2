//! The manifest declares a capability that the referenced ACP.md does not have.

use super::BASE;
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope, Source};
use agentproto_manifest::{Document, Node, Span};
use std::sync::Arc;

pub static CAPS_SUPERSET_OF_ACP: Rule = Rule {
    slug: "caps-superset-of-acp",
    title: "The manifest declares a capability that the referenced ACP.md does not have",
    source: Source::aip45("Capabilities"),
    decides: &["A45-CAP-09", "A45-CAP-06", "A45-CAP-07", "A45-SESS-08"],
    scope: Scope::CrossFile,
    docs: include_str!("caps-superset-of-acp.md"),
    ..BASE
};

/// Checks the two capabilities that also exist in AIP-44 (C10).
pub(super) fn capabilities_within(ctx: &RuleContext<'_>, acp: &Arc<Document>, root: &Node) {
    let (Some(declared), Some(aip44)) = (
        ctx.root.get("capabilities"),
        root.at(&["metadata", "aip44"]),
    ) else {
        return;
    };
    let claims = |key: &str| declared.get(key).filter(|node| node.is_true());
    if let Some(resumable) = claims("resumable")
        && let Some((span, why)) = no_load_session(aip44)
    {
        ctx.report(
            FindingDraft::new(
                &CAPS_SUPERSET_OF_ACP,
                resumable,
                "`resumable` is true, but the referenced ACP.md does not support loading a session",
            )
            .help("set `loadSession: true` in ACP.md if the agent supports `session/load`; otherwise set `resumable: false`")
            .related(acp, span, why),
        );
    }
    if let Some(multimodal) = claims("multimodal")
        && let Some((span, why)) = text_only(aip44)
    {
        ctx.report(
            FindingDraft::new(
                &CAPS_SUPERSET_OF_ACP,
                multimodal,
                "`multimodal` is true, but the referenced ACP.md accepts neither images nor audio",
            )
            .help("set `promptCapabilities.image` or `promptCapabilities.audio` to true in ACP.md if the agent accepts them; otherwise set `multimodal: false`")
            .related(acp, span, why),
        );
    }
}

/// The place where an ACP.md declares that sessions cannot be loaded. An explicit flag overrides
/// the tier.
fn no_load_session(aip44: &Node) -> Option<(Span, &'static str)> {
    if let Some(entry) = aip44.entry_at(&["capabilities", "agent", "loadSession"]) {
        let denied = entry.value.as_bool() == Some(false);
        return denied.then(|| (entry.span(), "`loadSession` is false"));
    }
    let tier = aip44.entry("tier")?;
    (tier.value.as_str() == Some("basic")).then(|| {
        (
            tier.span(),
            "tier `basic` does not support loading sessions",
        )
    })
}

/// The place where an ACP.md does not declare prompts with images or audio. No tier implies them.
fn text_only(aip44: &Node) -> Option<(Span, &'static str)> {
    let agent = aip44.entry_at(&["capabilities", "agent"]);
    let prompt = agent.and_then(|agent| agent.value.entry("promptCapabilities"));
    if let Some(prompt) = prompt {
        let flags = ["image", "audio"].map(|key| prompt.value.entry(key));
        let set = flags.iter().flatten();
        if set.clone().any(|e| e.value.as_bool() != Some(false)) || !prompt.value.is_map() {
            return None;
        }
        let place = set.clone().next().map_or(prompt.key_span, |e| e.span());
        return Some((place, "neither `image` nor `audio` is true"));
    }
    let place = agent
        .map(|agent| agent.key_span)
        .or_else(|| aip44.entry("tier").map(|tier| tier.span()))?;
    Some((
        place,
        "`promptCapabilities` is missing, and no tier implies it",
    ))
}
