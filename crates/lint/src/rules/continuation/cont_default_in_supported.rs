//! The default continuation strategy is not supported.

use super::{BASE, CONFORMANCE, STRATEGIES};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Rule, Scope};
use agentproto_manifest::Node;
use agentproto_text::closest_of;

pub static CONT_DEFAULT_IN_SUPPORTED: Rule = Rule {
    slug: "cont-default-in-supported",
    title: "The default continuation strategy is not in `supported`",
    source: CONFORMANCE,
    decides: &["A45-CONF-13"],
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    docs: include_str!("cont-default-in-supported.md"),
    ..BASE
};

pub(super) fn default_in_supported<'d>(ctx: &RuleContext<'d>, default: &'d Node, list: &'d Node) {
    let Some(name) = default.as_str().filter(|d| STRATEGIES.contains(d)) else {
        return;
    };
    let items = list.items();
    // If an item is a typo of the default, only the typo is reported, by another rule.
    let may_be = |item: &Node| match item.as_str() {
        Some(text) => {
            text == name
                || (!STRATEGIES.contains(&text) && closest_of(text, STRATEGIES) == Some(name))
        }
        None => true,
    };
    if items.is_empty() || items.iter().any(may_be) {
        return;
    }
    ctx.report(
        FindingDraft::new(
            &CONT_DEFAULT_IN_SUPPORTED,
            default,
            format!(
                "the default `{name}` is not in `continuation.supported`, so hosts must not use it"
            ),
        )
        .help(format!(
            "add `{name}` to `supported`, or choose a default from that list"
        ))
        .nearby(list.span, "supported strategies")
        .fix_if(
            Safety::Safe,
            format!("Add `{name}` to `supported`"),
            edits::append_item(ctx.doc, list, name),
        ),
    );
}
