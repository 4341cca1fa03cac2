//! Rule `option-type-enum`: the type of an option is unknown.

use super::{BASE, TYPES};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope};
use agentproto_manifest::Node;
use agentproto_text::{closest_of, one_of};

pub static OPTION_TYPE_ENUM: Rule = Rule {
    slug: "option-type-enum",
    report: Some(|ctx, v| ctx.report(type_enum(ctx, v.node))),
    title: "The type of an option is unknown",
    decides: &["A45-OPT-03", "A45-FM-20"],
    scope: Scope::Field,
    docs: include_str!("option-type-enum.md"),
    ..BASE
};

fn type_enum<'d>(ctx: &RuleContext<'d>, node: &'d Node) -> FindingDraft<'d> {
    let written = ctx.doc.slice(node.span);
    let meant = match node.as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("bool" | "flag" | "switch") => Some("boolean"),
        Some("int" | "number" | "float") => Some("integer"),
        Some("str" | "text") => Some("string"),
        Some("select" | "choice") => Some("enum"),
        Some(word) => closest_of(word, TYPES),
        None => None,
    };
    let draft = FindingDraft::new(
        &OPTION_TYPE_ENUM,
        node,
        format!("unknown option type `{written}`"),
    );
    let expected = one_of(&TYPES);
    draft.help(match meant {
        Some(meant) => format!("did you mean `{meant}`? (expected {expected})"),
        None => format!("expected {expected}"),
    })
}
