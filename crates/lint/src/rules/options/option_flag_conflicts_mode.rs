//! Rule `option-flag-conflicts-mode`: a mode and an option pass the same flag.

use super::BASE;
use super::syntax::flag_name;
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Severity};
use agentproto_manifest::Node;

pub static OPTION_FLAG_CONFLICTS_MODE: Rule = Rule {
    slug: "option-flag-conflicts-mode",
    title: "A mode and an option pass the same flag",
    severity: Severity::Warning,
    level: Level::Derived,
    docs: include_str!("option-flag-conflicts-mode.md"),
    ..BASE
};

fn flags_of(list: Option<&Node>) -> impl Iterator<Item = (&str, &Node)> {
    list.into_iter()
        .flat_map(Node::strings)
        .filter(|(text, _)| text.len() > 1 && text.starts_with('-') && *text != "--")
        .map(|(text, node)| (flag_name(text), node))
}

pub(super) fn flags<'d>(ctx: &RuleContext<'d>, option: &'d Node, modes: &'d [Node]) {
    if modes.is_empty() {
        return;
    }
    for key in ["bin_args_template", "bin_args_append_when_true"] {
        for (flag, node) in flags_of(option.get(key)) {
            let same = modes
                .iter()
                .flat_map(|mode| flags_of(mode.get("bin_args_append")))
                .find(|(other, _)| *other == flag);
            if let Some((_, other)) = same {
                ctx.report(
                    FindingDraft::new(
                        &OPTION_FLAG_CONFLICTS_MODE,
                        node,
                        format!("a mode also passes `{flag}`, so the agent can receive it twice"),
                    )
                    .help("pass the flag from only one of them")
                    .nearby(other.span, "the mode passes it here"),
                );
                return;
            }
        }
    }
}
