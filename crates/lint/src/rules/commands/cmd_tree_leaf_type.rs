//! Rule `cmd-tree-leaf-type`: an entry of `commands` is neither a path nor a group.

use super::{CLI, SUBCOMMANDS};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::Rule;
use crate::shape::{SchemaViolation, type_with_article};

pub static TREE_LEAF_TYPE: Rule = Rule {
    slug: "cmd-tree-leaf-type",
    report: Some(leaf_type),
    title: "An entry of `commands` is neither a path nor a group",
    source: SUBCOMMANDS,
    decides: &["A29-CMD-01", "A29-REQ-12"],
    doctypes: CLI,
    docs: include_str!("cmd-tree-leaf-type.md"),
    ..Rule::BASE
};

fn leaf_type<'d>(ctx: &RuleContext<'d>, violation: &SchemaViolation<'d>) {
    let found = type_with_article(violation.node.type_name());
    let report = FindingDraft::new(
        &TREE_LEAF_TYPE,
        violation.node,
        format!("expected the path of a TOOL.md or a mapping of subcommands, found {found}"),
    )
    .help("write `NAME: ./tools/NAME/TOOL.md`");
    ctx.report(report);
}
