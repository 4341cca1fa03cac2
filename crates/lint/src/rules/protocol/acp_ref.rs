//! `acp-ref-valid`, `acp-ref-kind`.

use super::{BASE, capabilities_within};
use crate::context::{FindingDraft, Location, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use crate::shape::{self, Keyword};
use agentproto_manifest::{Doctype, Document, Node, RefRole, Span};
use agentproto_text::one_of;

pub static ACP_REF_VALID: Rule = Rule {
    slug: "acp-ref-valid",
    title: "The referenced ACP.md does not conform to AIP-44",
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-03", "A45-FM-13"],
    scope: Scope::CrossFile,
    docs: include_str!("acp-ref-valid.md"),
    ..BASE
};

pub static ACP_REF_KIND: Rule = Rule {
    slug: "acp-ref-kind",
    title: "The referenced ACP.md describes a client",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::CrossFile,
    docs: include_str!("acp-ref-kind.md"),
    ..BASE
};

pub(super) fn bound_acp(ctx: &RuleContext<'_>) {
    let Some((reference, acp)) = ctx.bound(RefRole::Acp) else {
        return;
    };
    let Some(root) = &acp.root else {
        return;
    };
    let site = reference.site.node;
    if !ctx.is_linted(&acp.path)
        && ctx.on(&ACP_REF_VALID)
        && let Some((span, what)) = first_violation(acp, root)
    {
        ctx.report(
            FindingDraft::new(
                &ACP_REF_VALID,
                site,
                format!("the ACP.md that `acp` refers to violates its schema: {what}"),
            )
            .help("fix that file; `protocol: acp` requires a valid AIP-44 manifest")
            .related(acp, span, "first violation"),
        );
    }
    if let Some(kind) = root.get("kind")
        && kind.as_str() == Some("client")
    {
        ctx.report(
            FindingDraft::new(
                &ACP_REF_KIND,
                site,
                "the ACP.md that `acp` refers to describes a client, but a host needs an agent",
            )
            .help("refer to a manifest of kind `server` or `bridge`")
            .related(acp, kind.span, "declared as a client here"),
        );
    }
    capabilities_within(ctx, acp, root);
}

/// The first violation of the AIP-44 schema in a file: its place and a short message.
fn first_violation(doc: &Document, root: &Node) -> Option<(Span, String)> {
    let open = doc.frontmatter.map_or(Span::default(), |front| front.open);
    let violations =
        shape::violations(shape::shapes_for(Doctype::Acp), root, Location::Bytes(open));
    let first = violations.first()?;
    let pointer = doc.pointer_of(first.node).unwrap_or_default();
    let subject = match shape::dotted(&pointer) {
        name if name.is_empty() => "the frontmatter".to_owned(),
        name => format!("`{name}`"),
    };
    let what = match first.keyword {
        Keyword::Required => format!(
            "missing required field `{}` in {subject}",
            first.missing.as_deref().unwrap_or("")
        ),
        Keyword::AdditionalProperties => format!(
            "unknown field `{}` in {subject}",
            first.entry.map_or("", |e| e.key.as_str())
        ),
        Keyword::Enum => format!("{subject} must be {}", one_of(&first.expected)),
        Keyword::Type => format!("{subject} has the wrong type"),
        other => format!("{subject} violates `{}`", other.as_str()),
    };
    let span = match first.location {
        Location::Value(node) => node.span,
        Location::Key(entry) => entry.key_span,
        Location::Part(_, span) | Location::Bytes(span) => span,
    };
    Some((span, what))
}
