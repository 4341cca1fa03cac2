//! Rules `acp-server-operator`, `acp-governance-binding`, `acp-audit-off` and
//! `acp-audit-external-ref`.

use super::{ACP, aip44, basic_governed, kind};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Entry;

pub static ACP_SERVER_OPERATOR: Rule = Rule {
    slug: "acp-server-operator",
    title: "A server does not name its operator",
    severity: Severity::Warning,
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-OP-01", "A44-FM-10"],
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-server-operator.md"),
    ..Rule::BASE
};

pub static ACP_GOVERNANCE_BINDING: Rule = Rule {
    slug: "acp-governance-binding",
    title: "An endpoint with a governance tier has no `operator`, `governance` or `audit`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: aip44("Capability negotiation"),
    decides: &["A44-TIER-03"],
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-governance-binding.md"),
    ..Rule::BASE
};

pub static ACP_AUDIT_OFF: Rule = Rule {
    slug: "acp-audit-off",
    title: "The audit of tool calls is off",
    severity: Severity::Warning,
    source: aip44("Tool-call audit"),
    decides: &["A44-AUDIT-01", "A44-FM-13"],
    doctypes: ACP,
    docs: include_str!("acp-audit-off.md"),
    ..Rule::BASE
};

pub static ACP_AUDIT_EXTERNAL_REF: Rule = Rule {
    slug: "acp-audit-external-ref",
    title: "An external audit log has no `ref`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: aip44("Tool-call audit"),
    decides: &["A44-FM-13"],
    doctypes: ACP,
    scope: Scope::CrossField,
    docs: include_str!("acp-audit-external-ref.md"),
    ..Rule::BASE
};

pub(super) fn bindings<'d>(ctx: &RuleContext<'d>, entry: &'d Entry) {
    let aip44 = &entry.value;
    let kind_node = ctx.root.get("kind");
    let tier = aip44.get("tier");
    let is_server = kind(ctx) == Some("server");
    let orphan_server = is_server && !aip44.has("operator");
    if orphan_server && let Some(kind) = kind_node {
        ctx.report(
            FindingDraft::new(
                &ACP_SERVER_OPERATOR,
                entry,
                "a server must name the operator that it exposes",
            )
            .help("add `operator: ./OPERATOR.md` under `metadata.aip44`")
            .nearby(kind.span, "declared as a server here"),
        );
    }
    let audit = aip44.get("audit");
    match audit.and_then(|a| a.str_at(&["kind"])) {
        Some("off") => {
            if let Some(node) = audit.and_then(|a| a.get("kind")) {
                ctx.report(
                    FindingDraft::new(
                        &ACP_AUDIT_OFF,
                        node,
                        "the audit is off, but every tool call must be copied to the audit log",
                    )
                    .help("write `kind: governance`, or `kind: external` with a `ref`"),
                );
            }
        }
        Some("external") if !audit.is_some_and(|a| a.has("ref")) => {
            if let Some(audit) = aip44.entry("audit") {
                ctx.report(
                    FindingDraft::new(
                        &ACP_AUDIT_EXTERNAL_REF,
                        audit,
                        "the audit log is `external`, but `ref` is missing",
                    )
                    .help("add `ref` with the name or address of the log"),
                );
            }
        }
        _ => {}
    }
    let Some(tier) = tier else {
        return;
    };
    // acp-server-operator already reports a server without an operator.
    let reported = orphan_server && ctx.on(&ACP_SERVER_OPERATOR);
    let bound = ["operator", "governance", "audit"]
        .iter()
        .any(|key| aip44.has(key));
    match tier.as_str() {
        Some(word @ ("governance-aware" | "sandboxed")) if !bound && !reported => {
            ctx.report(
                FindingDraft::new(
                    &ACP_GOVERNANCE_BINDING,
                    tier,
                    format!("tier `{word}` needs `operator`, `governance` or `audit`"),
                )
                .help("add `governance` or `operator`, or declare tier `basic`"),
            );
        }
        Some("basic") => basic_governed(ctx, aip44, tier),
        _ => {}
    }
}
