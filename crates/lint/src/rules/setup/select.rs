//! Rules `setup-select-no-options` and `setup-default-not-in-options`.

use super::{CLI_AND_AGENT_CLI, SETUP, named};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity};
use agentproto_manifest::Node;
use agentproto_text::{closest_of, truncate};

pub static SETUP_SELECT_NO_OPTIONS: Rule = Rule {
    slug: "setup-select-no-options",
    title: "A select prompt has no options",
    level: Level::Derived,
    source: SETUP,
    decides: &["A29-SETUP-06"],
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("setup-select-no-options.md"),
    ..Rule::BASE
};

pub static SETUP_DEFAULT_NOT_IN_OPTIONS: Rule = Rule {
    slug: "setup-default-not-in-options",
    title: "The default of a select prompt is not one of its options",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SETUP,
    doctypes: CLI_AND_AGENT_CLI,
    scope: Scope::CrossField,
    docs: include_str!("setup-default-not-in-options.md"),
    ..Rule::BASE
};

pub(super) fn select<'d>(ctx: &RuleContext<'d>, step: &'d Node) {
    let Some(options) = step.get("options") else {
        if let Some(node) = step.get("type") {
            ctx.report(
                FindingDraft::new(
                    &SETUP_SELECT_NO_OPTIONS,
                    node,
                    format!("{} is of type `select` but has no `options`", named(step)),
                )
                .help("add `options`: a list, or `cmd` for a command that prints them"),
            );
        }
        return;
    };
    let Some(default) = step.get("default") else {
        return;
    };
    let Some(text) = default.as_str() else {
        return;
    };
    // A list with items that are not strings has its own finding.
    let all_texts =
        !options.items().is_empty() && options.strings().count() == options.items().len();
    if all_texts && !options.strings().any(|(option, _)| option == text) {
        let meant = closest_of(text, options.strings().map(|(option, _)| option));
        ctx.report(
            FindingDraft::new(
                &SETUP_DEFAULT_NOT_IN_OPTIONS,
                default,
                format!(
                    "the default `{}` is not one of the options",
                    truncate(text, 40)
                ),
            )
            .help(match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "use one of the options, or add it to them".to_owned(),
            })
            .nearby(options.span, "the options"),
        );
    }
}
