//! Rules `acp-rev-placeholder` and `acp-rev-short`.

use super::{ACP, aip44, is_placeholder_revision, is_revision};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Severity};
use agentproto_manifest::{Node, Style, Value};

pub static ACP_REV_PLACEHOLDER: Rule = Rule {
    slug: "acp-rev-placeholder",
    title: "`acp_rev` looks like a placeholder",
    severity: Severity::Warning,
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-07"],
    doctypes: ACP,
    docs: include_str!("acp-rev-placeholder.md"),
    ..Rule::BASE
};

pub static ACP_REV_SHORT: Rule = Rule {
    slug: "acp-rev-short",
    title: "`acp_rev` is an abbreviated commit",
    severity: Severity::Info,
    level: Level::May,
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-07"],
    doctypes: ACP,
    docs: include_str!("acp-rev-short.md"),
    ..Rule::BASE
};

pub(super) fn revision<'d>(ctx: &RuleContext<'d>, aip44: &'d Node) {
    let Some(node) = aip44.get("acp_rev") else {
        return;
    };
    let text = match &node.value {
        Value::Str(text) => text.as_str(),
        // Check the text as if it were quoted.
        Value::Int(_) | Value::Float(_) if node.style == Style::Plain => ctx.doc.slice(node.span),
        _ => return,
    };
    if !is_revision(text) {
        return;
    }
    if is_placeholder_revision(text) {
        ctx.report(
            FindingDraft::new(
                &ACP_REV_PLACEHOLDER,
                node,
                format!("`{text}` looks like a placeholder, not a commit"),
            )
            .help("write the commit of the ACP repository that the endpoint was tested against"),
        );
    } else if text.len() < 40 {
        ctx.report(
            FindingDraft::new(
                &ACP_REV_SHORT,
                node,
                format!(
                    "`acp_rev` has only {} of the 40 digits of the commit",
                    text.len()
                ),
            )
            .help("write all 40 digits: an abbreviation can become ambiguous"),
        );
    }
}
