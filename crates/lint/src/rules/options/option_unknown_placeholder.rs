//! Rule `option-unknown-placeholder`: an option uses an unknown placeholder.

use super::BASE;
use super::syntax::unknown_placeholder;
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;

pub static OPTION_UNKNOWN_PLACEHOLDER: Rule = Rule {
    slug: "option-unknown-placeholder",
    title: "An option uses an unknown placeholder",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-OPT-05"],
    scope: Scope::Field,
    docs: include_str!("option-unknown-placeholder.md"),
    ..BASE
};

/// Reports placeholders other than `{value}`. Returns true if `bin_args_template` contains one.
pub(super) fn placeholders<'d>(ctx: &RuleContext<'d>, option: &'d Node) -> bool {
    let mut in_template = false;
    let templates = option.get("bin_args_template").map_or(&[][..], Node::items);
    let variables = option.get("env").map_or(&[][..], Node::entries);
    let texts = templates
        .iter()
        .map(|node| (node, true))
        .chain(variables.iter().map(|e| (&e.value, false)));
    for (node, template) in texts {
        let Some(found) = node.as_str().and_then(unknown_placeholder) else {
            continue;
        };
        in_template |= template;
        ctx.report(
            FindingDraft::new(
                &OPTION_UNKNOWN_PLACEHOLDER,
                node,
                format!("unknown placeholder `{found}`: only `{{value}}` is replaced"),
            )
            .help(if found.starts_with("${") {
                "write `{value}`, without `$`"
            } else if found.starts_with("{{") {
                "write `{value}`, in single braces"
            } else {
                "write `{value}`"
            }),
        );
    }
    in_template
}
