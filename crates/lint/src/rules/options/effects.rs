//! Rules `option-append-when-true-non-bool`, `option-template-no-value`,
//! `option-template-on-boolean` and `option-inert`.

use super::{BASE, non_empty_entry, placeholders, type_of};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::{Entry, Node};

pub static OPTION_APPEND_WHEN_TRUE_NON_BOOL: Rule = Rule {
    slug: "option-append-when-true-non-bool",
    title: "`bin_args_append_when_true` is set on an option that is not a boolean",
    decides: &["A45-OPT-06"],
    fix: FixKind::Suggest,
    docs: include_str!("option-append-when-true-non-bool.md"),
    ..BASE
};

pub static OPTION_TEMPLATE_NO_VALUE: Rule = Rule {
    slug: "option-template-no-value",
    title: "`bin_args_template` does not use the value",
    severity: Severity::Warning,
    level: Level::Derived,
    decides: &["A45-OPT-05"],
    scope: Scope::Field,
    docs: include_str!("option-template-no-value.md"),
    ..BASE
};

pub static OPTION_TEMPLATE_ON_BOOLEAN: Rule = Rule {
    slug: "option-template-on-boolean",
    title: "`bin_args_template` is set on a boolean option",
    severity: Severity::Warning,
    level: Level::Derived,
    fix: FixKind::Suggest,
    docs: include_str!("option-template-on-boolean.md"),
    ..BASE
};

pub static OPTION_INERT: Rule = Rule {
    slug: "option-inert",
    title: "An option has no effect",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-FM-20"],
    docs: include_str!("option-inert.md"),
    ..BASE
};

const EFFECTS: [&str; 3] = ["bin_args_template", "bin_args_append_when_true", "env"];

pub(super) fn check_effects<'d>(ctx: &RuleContext<'d>, option: &'d Node) {
    let template = non_empty_entry(option, "bin_args_template");
    let when_true = non_empty_entry(option, "bin_args_append_when_true");
    let env = non_empty_entry(option, "env");
    let known = type_of(option);
    if let (Some(entry), Some(kind)) = (when_true, known)
        && kind != "boolean"
    {
        ctx.report(
            FindingDraft::new(
                &OPTION_APPEND_WHEN_TRUE_NON_BOOL,
                entry,
                format!("`bin_args_append_when_true` is only for booleans, but this option is of type `{kind}`"),
            )
            .help("use `bin_args_template` with `{value}`, or make the option a `boolean`"),
        );
    }
    if let Some(entry) = template
        && known == Some("boolean")
    {
        ctx.report(
            FindingDraft::new(
                &OPTION_TEMPLATE_ON_BOOLEAN,
                entry,
                "a boolean has no value to put into `bin_args_template`",
            )
            .help("use `bin_args_append_when_true` for a bare flag"),
        );
    }
    let strange = placeholders(ctx, option);
    if let Some(entry) = template
        && entry.value.is_seq()
        && known != Some("boolean")
        && !strange
        && !entry
            .value
            .strings()
            .any(|(text, _)| text.contains("{value}"))
    {
        ctx.report(
            FindingDraft::new(
                &OPTION_TEMPLATE_NO_VALUE,
                entry,
                "`bin_args_template` does not contain `{value}`, so every value gives the same arguments",
            )
            .help("put `{value}` where the value belongs, for example `[--depth, \"{value}\"]`"),
        );
    }
    // A misspelled field has its own finding.
    let misnamed = |e: &Entry| {
        let patch = e.key.starts_with("bin_arg") || e.key.starts_with("env");
        patch && !EFFECTS.contains(&&*e.key)
    };
    if template.is_none()
        && when_true.is_none()
        && env.is_none()
        && !option.entries().iter().any(misnamed)
        && let Some(id) = option.get("id")
    {
        ctx.report(
            FindingDraft::new(
                &OPTION_INERT,
                id,
                "this option changes neither the arguments nor the environment, so a host cannot apply it",
            )
            .help("add `bin_args_template`, `bin_args_append_when_true` or `env` to pass its value"),
        );
    }
}
