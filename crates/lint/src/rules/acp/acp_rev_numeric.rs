//! Rule `acp-rev-numeric`: YAML reads `acp_rev` as a number.

use super::{ACP, aip44, is_revision};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use crate::rules::document::FM_TYPE;
use crate::shape::{self, SchemaViolation};
use agentproto_manifest::Value;

pub static ACP_REV_NUMERIC: Rule = Rule {
    slug: "acp-rev-numeric",
    report: Some(numeric_revision),
    title: "YAML reads `acp_rev` as a number",
    source: aip44("ACP.md frontmatter"),
    decides: &["A44-FM-07"],
    doctypes: ACP,
    fix: FixKind::Safe,
    docs: include_str!("acp-rev-numeric.md"),
    ..Rule::BASE
};

fn numeric_revision<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    if !matches!(v.node.value, Value::Int(_) | Value::Float(_)) {
        let general = SchemaViolation {
            rule: &FM_TYPE,
            ..v.clone()
        };
        return ctx.report(shape::draft(ctx, &general));
    }
    let raw = ctx.doc.slice(v.node.span);
    let draft = FindingDraft::new(
        &ACP_REV_NUMERIC,
        v.node,
        format!("YAML reads `{raw}` as a number, but a revision must be a string"),
    );
    // Quotes do not help if the text is not a commit.
    let draft = if is_revision(raw) {
        draft.help(format!("quote it: \"{raw}\"")).fix_if(
            Safety::Safe,
            format!("Quote `{raw}`"),
            edits::quote(ctx.doc, v.node),
        )
    } else {
        draft.help("write the commit in quotes: 7 to 40 hexadecimal digits")
    };
    ctx.report(draft);
}
