//! A block is given both inline and by reference.

use super::{BLOCKS, aip36, is_form};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope};
use agentproto_manifest::Node;

pub static SB36_INLINE_AND_REF: Rule = Rule {
    slug: "sb36-inline-and-ref",
    title: "A block is given both inline and by reference",
    source: aip36("Conformance rules"),
    doctypes: BLOCKS,
    scope: Scope::CrossField,
    docs: include_str!("sb36-inline-and-ref.md"),
    ..Rule::BASE
};

pub(super) fn both_forms<'d>(ctx: &RuleContext<'d>, block: &'d Node) {
    let sources = block.get("mounts").map_or(&[][..], Node::items);
    let nodes = sources.iter().filter_map(|m| m.get("source"));
    for node in std::iter::once(block).chain(nodes) {
        let mut forms = node.entries().iter().filter(|e| is_form(&e.key));
        if let (Some(first), Some(second)) = (forms.next(), forms.next()) {
            ctx.report(
                FindingDraft::new(
                    &SB36_INLINE_AND_REF,
                    second,
                    format!(
                        "`{}` and `{}` cannot be used together",
                        first.key, second.key
                    ),
                )
                .help("remove one of them")
                .nearby(first.key_span, "the other form"),
            );
        }
    }
}
