//! Rules `intents-vs-actions` and `intent-ref-missing`.

use super::CLI;
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::{RefRole, Resolution};
use agentproto_text::truncate;

pub static INTENTS_VS_ACTIONS: Rule = Rule {
    slug: "intents-vs-actions",
    title: "The list of intents is called `intents` instead of `actions`",
    severity: Severity::Warning,
    level: Level::May,
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-08"],
    doctypes: CLI,
    fix: FixKind::Safe,
    docs: include_str!("intents-vs-actions.md"),
    ..Rule::BASE
};

pub static INTENT_REF_MISSING: Rule = Rule {
    slug: "intent-ref-missing",
    title: "An INTENT.md that the bundle lists does not exist",
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-08", "A29-SKILL-06", "A29-COMPAT-05"],
    doctypes: CLI,
    scope: Scope::CrossFile,
    docs: include_str!("intent-ref-missing.md"),
    ..Rule::BASE
};

pub(super) fn check_intents(ctx: &RuleContext<'_>) {
    if let Some(intents) = ctx.root.entry("intents") {
        let report = FindingDraft::new(
            &INTENTS_VS_ACTIONS,
            intents,
            "only the prose of AIP-29 calls this list `intents`: in the published schema it is `actions`",
        );
        ctx.report(match ctx.root.entry("actions") {
            Some(actions) => report
                .nearby(actions.key_span, "the other list")
                .help("move the entries to `actions`"),
            None => report.help("rename it to `actions`").fix_if(
                Safety::Safe,
                "Rename `intents` to `actions`",
                edits::rename_key(ctx.doc, intents, "actions"),
            ),
        });
    }
    if !ctx.root.has("intents") && !ctx.root.has("actions") {
        return;
    }
    for intent in ctx.refs().iter().filter(|r| r.site.role == RefRole::Intent) {
        if let Resolution::Missing(_) = &intent.target {
            let report = FindingDraft::new(
                &INTENT_REF_MISSING,
                intent.site.node,
                format!("`{}` does not exist", truncate(intent.site.text, 80)),
            )
            .help("create the INTENT.md, or remove the entry");
            ctx.report(report);
        }
    }
}
