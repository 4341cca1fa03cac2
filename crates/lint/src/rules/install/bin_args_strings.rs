//! Rule `bin-args-strings`: an item of `bin_args` is not a string.

use super::{CLI_AND_AGENT_CLI, OPTIONAL};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule};
use agentproto_manifest::{Node, Value};
use agentproto_text::truncate;

pub static BIN_ARGS_STRINGS: Rule = Rule {
    slug: "bin-args-strings",
    report: Some(|ctx, v| bad_argument(ctx, v.node)),
    title: "An item of `bin_args` is not a string",
    source: OPTIONAL,
    decides: &["A29-OPT-01", "A45-FM-06"],
    doctypes: CLI_AND_AGENT_CLI,
    fix: FixKind::Safe,
    docs: include_str!("bin-args-strings.md"),
    ..Rule::BASE
};

fn bad_argument(ctx: &RuleContext<'_>, node: &Node) {
    let list = ctx.root.get("bin_args").map_or(&[][..], Node::items);
    let Some(node) = list.iter().find(|item| std::ptr::eq(*item, node)) else {
        return;
    };
    let written = truncate(ctx.doc.slice(node.span), 40);
    let draft = match &node.value {
        Value::Null => FindingDraft::new(&BIN_ARGS_STRINGS, node, "this argument is empty")
            .help("remove the item, or write `\"\"` for an empty argument"),
        Value::Map(_) => FindingDraft::new(
            &BIN_ARGS_STRINGS,
            node,
            "YAML reads this argument as a mapping, because it contains a colon",
        )
        .help("quote the whole argument"),
        Value::Seq(_) => FindingDraft::new(
            &BIN_ARGS_STRINGS,
            node,
            "this argument is a list, not a string",
        )
        .help("write one argument per item"),
        _ => {
            let kind = match node.value {
                Value::Bool(_) => "boolean",
                _ => "number",
            };
            let message = format!("YAML reads the argument {written} as a {kind}, not as a string");
            FindingDraft::new(&BIN_ARGS_STRINGS, node, message)
                .help(format!("quote it: \"{written}\""))
        }
    };
    let edits = match node.value {
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => edits::quote(ctx.doc, node),
        _ => None,
    };
    ctx.report(draft.fix_if(Safety::Safe, "Quote the argument", edits));
}
