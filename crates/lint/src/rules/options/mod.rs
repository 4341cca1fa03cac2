//! Options: typed settings, and how their values are passed as arguments and environment variables.

mod argv_shell_metachar;
mod effects;
mod env_name_invalid;
mod option_enum_required;
mod option_flag_conflicts_mode;
mod option_id_pattern;
mod option_secret;
mod option_type_enum;
mod option_unknown_placeholder;
mod syntax;
mod values;

use crate::context::RuleContext;
use crate::registry::{Family, FamilyCheck};
use crate::rule::{Rule, Scope, Source};
use crate::rules::modes::unique_ids;
use agentproto_manifest::{Doctype, Entry, Node};

use argv_shell_metachar::{ARGV_SHELL_METACHAR, argv};
use effects::{
    OPTION_APPEND_WHEN_TRUE_NON_BOOL, OPTION_INERT, OPTION_TEMPLATE_NO_VALUE,
    OPTION_TEMPLATE_ON_BOOLEAN, check_effects,
};
use env_name_invalid::{ENV_NAME_INVALID, bad_env_name};
use option_enum_required::OPTION_ENUM_REQUIRED;
use option_flag_conflicts_mode::{OPTION_FLAG_CONFLICTS_MODE, flags};
use option_id_pattern::OPTION_ID_PATTERN;
use option_secret::{OPTION_SECRET_ARGV, OPTION_SECRET_ENV, secret};
use option_type_enum::OPTION_TYPE_ENUM;
use option_unknown_placeholder::{OPTION_UNKNOWN_PLACEHOLDER, placeholders};
pub use syntax::is_env_name;
use values::{
    OPTION_DEFAULT_BOUNDS, OPTION_DEFAULT_NOT_IN_ENUM, OPTION_DEFAULT_TYPE, OPTION_ENUM_DUPLICATES,
    OPTION_ENUM_ON_NON_ENUM, OPTION_MIN_GT_MAX, OPTION_MINMAX_NON_INTEGER,
};

pub static FAMILY: Family = Family {
    name: "options",
    rules: &[
        &OPTION_ID_PATTERN,
        &OPTION_ID_UNIQUE,
        &OPTION_TYPE_ENUM,
        &OPTION_ENUM_REQUIRED,
        &OPTION_ENUM_ON_NON_ENUM,
        &OPTION_ENUM_DUPLICATES,
        &OPTION_MINMAX_NON_INTEGER,
        &OPTION_MIN_GT_MAX,
        &OPTION_DEFAULT_TYPE,
        &OPTION_DEFAULT_NOT_IN_ENUM,
        &OPTION_DEFAULT_BOUNDS,
        &OPTION_APPEND_WHEN_TRUE_NON_BOOL,
        &OPTION_TEMPLATE_NO_VALUE,
        &OPTION_TEMPLATE_ON_BOOLEAN,
        &OPTION_UNKNOWN_PLACEHOLDER,
        &OPTION_INERT,
        &OPTION_SECRET_ARGV,
        &OPTION_SECRET_ENV,
        &OPTION_FLAG_CONFLICTS_MODE,
        &ARGV_SHELL_METACHAR,
        &ENV_NAME_INVALID,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const BASE: Rule = Rule {
    scope: Scope::CrossField,
    ..Rule::aip45("Options")
};

pub static OPTION_ID_UNIQUE: Rule = Rule {
    slug: "option-id-unique",
    title: "Two options have the same id",
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-09"],
    docs: include_str!("option-id-unique.md"),
    ..BASE
};

const TYPES: [&str; 4] = ["boolean", "integer", "string", "enum"];

fn check(ctx: &RuleContext<'_>) {
    let root = ctx.root;
    if let Some(args) = root.get("bin_args") {
        argv(ctx, args, false);
    }
    if let Some(args) = root.at(&["mcp", "args"]) {
        argv(ctx, args, false);
    }
    let modes = root.get("modes").map_or(&[][..], Node::items);
    for mode in modes {
        if let Some(args) = mode.get("bin_args_append") {
            argv(ctx, args, false);
        }
        env_keys(ctx, mode);
    }
    for entry in root.at(&["models", "env"]).map_or(&[][..], Node::entries) {
        let node = &entry.value;
        if let Some(name) = node.as_str().filter(|name| !is_env_name(name)) {
            ctx.report(bad_env_name(node.into(), name));
        }
    }
    let Some(options) = root.get("options") else {
        return;
    };
    unique_ids(ctx, &OPTION_ID_UNIQUE, options, "option");
    for option in options.items().iter().filter(|o| o.is_map()) {
        values::check(ctx, option);
        check_effects(ctx, option);
        secret(ctx, option);
        flags(ctx, option, modes);
        env_keys(ctx, option);
        for key in ["bin_args_template", "bin_args_append_when_true"] {
            if let Some(args) = option.get(key) {
                argv(ctx, args, true);
            }
        }
    }
}

/// The declared type, if it is a known one.
fn type_of(option: &Node) -> Option<&str> {
    option.str_at(&["type"]).filter(|t| TYPES.contains(t))
}

/// The entry with this key, unless its value is an empty list or mapping. A value of the wrong type
/// counts as present, because it has its own finding.
fn non_empty_entry<'d>(option: &'d Node, key: &str) -> Option<&'d Entry> {
    option.entry(key).filter(|e| {
        let empty = (e.value.is_seq() && e.value.items().is_empty())
            || (e.value.is_map() && e.value.entries().is_empty());
        !empty
    })
}

fn env_keys<'d>(ctx: &RuleContext<'d>, holder: &'d Node) {
    for entry in holder.get("env").map_or(&[][..], Node::entries) {
        if !is_env_name(&entry.key) {
            ctx.report(bad_env_name(entry.into(), &entry.key));
        }
    }
}
