//! SANDBOX.md has no schema, id or version.

use super::aip36;
use crate::context::{FindingDraft, Location, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Severity};
use agentproto_manifest::{Doctype, Span};

pub static SB36_STANDALONE_FIELDS: Rule = Rule {
    slug: "sb36-standalone-fields",
    title: "SANDBOX.md has no `schema`, `id` or `version`",
    severity: Severity::Warning,
    level: Level::Should,
    source: aip36("Standalone-only fields"),
    doctypes: &[Doctype::Sandbox],
    fix: FixKind::Safe,
    docs: include_str!("sb36-standalone-fields.md"),
    ..Rule::BASE
};

pub(super) fn standalone(ctx: &RuleContext<'_>) {
    let open = ctx
        .doc
        .frontmatter
        .map_or(Span::default(), |front| front.open);
    let missing = |key: &'static str, help: &'static str| {
        (!ctx.root.has(key)).then(|| {
            FindingDraft::new(
                &SB36_STANDALONE_FIELDS,
                Location::Bytes(open),
                format!("missing field `{key}` in SANDBOX.md"),
            )
            .help(help)
        })
    };
    if let Some(draft) = missing("schema", "add `schema: sandbox/v1`") {
        ctx.report(draft.fix_if(
            Safety::Safe,
            "Add `schema: sandbox/v1`",
            edits::add_entry(ctx.doc, ctx.root, "schema", "sandbox/v1"),
        ));
    }
    let id = missing(
        "id",
        "add `id: \"@owner/name\"`, which other manifests use to refer to it",
    );
    let version = missing("version", "add `version`, for example `version: 1.0.0`");
    for draft in [id, version].into_iter().flatten() {
        ctx.report(draft);
    }
}
