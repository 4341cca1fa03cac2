//! The records of the option rules.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};

const BASE: Rule = Rule {
    scope: Scope::CrossField,
    ..Rule::aip45("Options")
};

const FILE: &str = "AGENT-CLI.md";

const fn over(yaml: &'static str) -> Example {
    Example::over("quill", FILE, yaml)
}

pub static OPTION_ID_PATTERN: Rule = Rule {
    slug: "option-id-pattern",
    words: Some(|ctx, v| ctx.report(id_pattern(ctx, v.node))),
    title: "The id of an option has characters that it may not have",
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-10"],
    scope: Scope::Field,
    fix: FixKind::Safe,
    what: "The id of an option is made of lower-case letters, digits and `_`, at most 64 of them.",
    why: "Operators set the option by this id, and hosts refuse ids of another form.",
    bad: over(
        "options:\n  - id: word-limit\n    type: integer\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: word_limit\n    type: integer\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_ID_UNIQUE: Rule = Rule {
    slug: "option-id-unique",
    title: "Two options have the same id",
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-09"],
    what: "Every option has an id of its own.",
    why: "An operator sets the value by id; with two of them nobody can tell which one gets it.",
    bad: over(
        "options:\n  - id: words\n    type: integer\n    bin_args_template: [--words, \"{value}\"]\n  \
         - id: words\n    type: integer\n    env: { QUILL_WORDS: \"{value}\" }\n",
    ),
    good: over(
        "options:\n  - id: words\n    type: integer\n    bin_args_template: [--words, \"{value}\"]\n  \
         - id: lines\n    type: integer\n    env: { QUILL_LINES: \"{value}\" }\n",
    ),
    note: Some(
        "C15: the JSON Schema cannot say this; the conformance list does, and we follow it.",
    ),
    ..BASE
};

pub static OPTION_TYPE_ENUM: Rule = Rule {
    slug: "option-type-enum",
    words: Some(|ctx, v| ctx.report(type_enum(ctx, v.node))),
    title: "The type of an option is not one that AIP-45 knows",
    decides: &["A45-OPT-03", "A45-FM-20"],
    scope: Scope::Field,
    what: "The type of an option is `boolean`, `integer`, `string` or `enum`.",
    why: "Hosts check a value by the type before they start the agent.",
    bad: over(
        "options:\n  - id: words\n    type: number\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: words\n    type: integer\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_ENUM_REQUIRED: Rule = Rule {
    slug: "option-enum-required",
    words: Some(enum_required),
    title: "An option of type enum does not list its values",
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-11"],
    what: "An option of type `enum` has a list `enum`.",
    why: "Without the list a host cannot check a value, and must do so before it starts the agent.",
    bad: over(
        "options:\n  - id: tone\n    type: enum\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: tone\n    type: enum\n    enum: [plain, formal]\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_ENUM_ON_NON_ENUM: Rule = Rule {
    slug: "option-enum-on-non-enum",
    title: "A list of values on an option that is not an enum",
    severity: Severity::Warning,
    level: Level::Derived,
    fix: FixKind::Safe,
    what: "Only options of type `enum` have the list `enum`.",
    why: "For other types no host looks at the list, so values outside it pass unnoticed.",
    bad: over(
        "options:\n  - id: tone\n    type: string\n    enum: [plain, formal]\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: tone\n    type: enum\n    enum: [plain, formal]\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_ENUM_DUPLICATES: Rule = Rule {
    slug: "option-enum-duplicates",
    title: "A value stands twice in an enum",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::Field,
    fix: FixKind::Safe,
    what: "Every value in `enum` stands there once.",
    why: "A second copy does nothing; often another value was meant.",
    bad: over(
        "options:\n  - id: tone\n    type: enum\n    enum: [plain, formal, plain]\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: tone\n    type: enum\n    enum: [plain, formal]\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_MINMAX_NON_INTEGER: Rule = Rule {
    slug: "option-minmax-non-integer",
    title: "Bounds on an option that is not an integer",
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-12"],
    fix: FixKind::Safe,
    what: "`min` and `max` stand on options of type `integer` only.",
    why: "Bounds mean nothing for other types, so the author expects a check that never happens.",
    bad: over(
        "options:\n  - id: tone\n    type: string\n    max: 20\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: words\n    type: integer\n    max: 20\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    note: Some(
        "C15: the JSON Schema does not say this; the conformance list does, and we follow it.",
    ),
    ..BASE
};

pub static OPTION_MIN_GT_MAX: Rule = Rule {
    slug: "option-min-gt-max",
    title: "The least value of an option is greater than its greatest",
    level: Level::Derived,
    what: "`min` is not greater than `max`.",
    why: "No value can satisfy both, so the option can never be set.",
    bad: over(
        "options:\n  - id: words\n    type: integer\n    min: 90\n    max: 10\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: words\n    type: integer\n    min: 10\n    max: 90\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_DEFAULT_TYPE: Rule = Rule {
    slug: "option-default-type",
    title: "The default of an option has another type than the option",
    decides: &["A45-OPT-09"],
    what: "`default` has the declared `type`: a boolean, an integer, or a string.",
    why: "The default goes the way of any value, and a host must refuse a value of the wrong type.",
    bad: over(
        "options:\n  - id: words\n    type: integer\n    default: \"50\"\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: words\n    type: integer\n    default: 50\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_DEFAULT_NOT_IN_ENUM: Rule = Rule {
    slug: "option-default-not-in-enum",
    title: "The default of an option is not among its values",
    decides: &["A45-OPT-09"],
    what: "The default of an option of type `enum` is one of its values.",
    why: "A host must refuse a value outside the list, and the default is such a value.",
    bad: over(
        "options:\n  - id: tone\n    type: enum\n    enum: [plain, formal]\n    default: casual\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: tone\n    type: enum\n    enum: [plain, formal]\n    default: formal\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_DEFAULT_BOUNDS: Rule = Rule {
    slug: "option-default-bounds",
    title: "The default of an option is outside its bounds",
    decides: &["A45-OPT-09"],
    what: "The default of an integer option lies between `min` and `max`.",
    why: "A host must refuse a value outside the bounds, and the default is such a value.",
    bad: over(
        "options:\n  - id: words\n    type: integer\n    min: 10\n    default: 5\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: words\n    type: integer\n    min: 10\n    default: 10\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_APPEND_WHEN_TRUE_NON_BOOL: Rule = Rule {
    slug: "option-append-when-true-non-bool",
    title: "Arguments for a true value on an option that is no boolean",
    decides: &["A45-OPT-06"],
    fix: FixKind::Suggest,
    what: "`bin_args_append_when_true` stands on options of type `boolean` only.",
    why: "A value of another type is never `true`, so the arguments are never passed.",
    bad: over(
        "options:\n  - id: tone\n    type: string\n    bin_args_append_when_true: [--tone]\n",
    ),
    good: over(
        "options:\n  - id: terse\n    type: boolean\n    bin_args_append_when_true: [--terse]\n",
    ),
    ..BASE
};

pub static OPTION_TEMPLATE_NO_VALUE: Rule = Rule {
    slug: "option-template-no-value",
    title: "A template of arguments that never uses the value",
    severity: Severity::Warning,
    level: Level::Derived,
    decides: &["A45-OPT-05"],
    scope: Scope::Field,
    what: "`bin_args_template` has `{value}` somewhere.",
    why: "Without it the agent learns that the option was set but not to what.",
    bad: over("options:\n  - id: words\n    type: integer\n    bin_args_template: [--words]\n"),
    good: over(
        "options:\n  - id: words\n    type: integer\n    bin_args_template: [--words, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_TEMPLATE_ON_BOOLEAN: Rule = Rule {
    slug: "option-template-on-boolean",
    title: "A template of arguments on a boolean",
    severity: Severity::Warning,
    level: Level::Derived,
    fix: FixKind::Suggest,
    what: "Options of type `boolean` use `bin_args_append_when_true`, not `bin_args_template`.",
    why: "The template is meant for flags with a value; the reference implementation ignores it on booleans.",
    bad: over(
        "options:\n  - id: terse\n    type: boolean\n    bin_args_template: [\"--terse={value}\"]\n",
    ),
    good: over(
        "options:\n  - id: terse\n    type: boolean\n    bin_args_append_when_true: [--terse]\n",
    ),
    ..BASE
};

pub static OPTION_UNKNOWN_PLACEHOLDER: Rule = Rule {
    slug: "option-unknown-placeholder",
    title: "A placeholder that nobody replaces",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-OPT-05"],
    scope: Scope::Field,
    what: "In `bin_args_template` and `env` of an option the only placeholder is `{value}`.",
    why: "Any other token reaches the agent as it stands: `${value}` becomes a dollar sign and the value.",
    bad: over(
        "options:\n  - id: words\n    type: integer\n    bin_args_template: [\"--words=${value}\"]\n",
    ),
    good: over(
        "options:\n  - id: words\n    type: integer\n    bin_args_template: [\"--words={value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_INERT: Rule = Rule {
    slug: "option-inert",
    title: "An option that changes nothing",
    severity: Severity::Warning,
    level: Level::Should,
    decides: &["A45-FM-20"],
    what: "An option says how its value reaches the arguments or the environment.",
    why: "A host checks and stores the value, and then the agent never hears of it.",
    bad: over("options:\n  - id: words\n    type: integer\n"),
    good: over(
        "options:\n  - id: words\n    type: integer\n    env: { QUILL_WORDS: \"{value}\" }\n",
    ),
    ..BASE
};

pub static OPTION_SECRET_ARGV: Rule = Rule {
    slug: "option-secret-argv",
    title: "A credential would be passed as an argument",
    source: Source::aip45("Auth surface"),
    decides: &["A45-AUTH-04"],
    fix: FixKind::Suggest,
    what: "No string option that is named like a credential has a `bin_args_template`.",
    why: "Every process of the machine can read the arguments of another; secrets must never stand there.",
    bad: over(
        "options:\n  - id: api_key\n    type: string\n    bin_args_template: [--api-key, \"{value}\"]\n",
    ),
    good: over(
        "options:\n  - id: dictionary\n    type: string\n    bin_args_template: [--dictionary, \"{value}\"]\n",
    ),
    ..BASE
};

pub static OPTION_SECRET_ENV: Rule = Rule {
    slug: "option-secret-env",
    title: "A credential is passed as an option instead of a secret",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source::aip45("Auth surface"),
    decides: &["A45-AUTH-03"],
    what: "No string option that is named like a credential sets a variable.",
    why: "Option values stand in operator files in plain text; secrets come from SECRETS.md (AIP-19) and are resolved at spawn.",
    bad: over(
        "options:\n  - id: auth_token\n    type: string\n    env: { QUILL_AUTH_TOKEN: \"{value}\" }\n",
    ),
    good: over(
        "options:\n  - id: dictionary\n    type: string\n    env: { QUILL_DICTIONARY: \"{value}\" }\n",
    ),
    ..BASE
};

pub static OPTION_FLAG_CONFLICTS_MODE: Rule = Rule {
    slug: "option-flag-conflicts-mode",
    title: "A mode and an option pass the same flag",
    severity: Severity::Warning,
    level: Level::Derived,
    what: "A flag is passed by modes or by options, not by both.",
    why: "Option arguments come after those of the mode, so the agent gets the flag twice and one of the two is lost.",
    bad: over(
        "modes:\n  - id: formal\n    bin_args_append: [--tone, formal]\n\
         options:\n  - id: tone\n    type: string\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    good: over(
        "modes:\n  - id: formal\n    bin_args_append: [--formal]\n\
         options:\n  - id: tone\n    type: string\n    bin_args_template: [--tone, \"{value}\"]\n",
    ),
    ..BASE
};

pub static ARGV_SHELL_METACHAR: Rule = Rule {
    slug: "argv-shell-metachar",
    title: "An argument relies on a shell that is not there",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::Field,
    what: "Arguments have no pipes, redirections, substitutions, variables or `~` of a shell.",
    why: "The binary is started directly; it would get these signs as plain text.",
    bad: over("bin_args: [repl, \"--home=$HOME/quill\"]\n"),
    good: over("bin_args: [repl, --home=/drafts]\n"),
    ..BASE
};

pub static ENV_NAME_INVALID: Rule = Rule {
    slug: "env-name-invalid",
    title: "A variable has a name that no variable can have",
    level: Level::Derived,
    scope: Scope::Field,
    what: "Variables in `env` of modes, options and models are letters, digits and `_`, and no digit first.",
    why: "Shells and most programs cannot read a variable of another name, so the setting is lost.",
    bad: over("modes:\n  - id: proof\n    env: { QUILL-MARK: \"1\" }\n"),
    good: over("modes:\n  - id: proof\n    env: { QUILL_MARK: \"1\" }\n"),
    ..BASE
};
