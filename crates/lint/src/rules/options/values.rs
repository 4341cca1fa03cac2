//! Type, bounds, choices and default of one option.

use super::{BASE, type_of};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::rule::{FixKind, Level, Rule, Scope, Severity, Source};
use crate::shape::duplicate_texts;
use agentproto_manifest::{Node, Value};
use agentproto_text::closest_of;

pub static OPTION_ENUM_ON_NON_ENUM: Rule = Rule {
    slug: "option-enum-on-non-enum",
    title: "`enum` is set on an option of another type",
    severity: Severity::Warning,
    level: Level::Derived,
    fix: FixKind::Safe,
    docs: include_str!("option-enum-on-non-enum.md"),
    ..BASE
};

pub static OPTION_ENUM_DUPLICATES: Rule = Rule {
    slug: "option-enum-duplicates",
    title: "`enum` contains a duplicate value",
    severity: Severity::Warning,
    level: Level::Derived,
    scope: Scope::Field,
    fix: FixKind::Safe,
    docs: include_str!("option-enum-duplicates.md"),
    ..BASE
};

pub static OPTION_MINMAX_NON_INTEGER: Rule = Rule {
    slug: "option-minmax-non-integer",
    title: "`min` or `max` is set on an option that is not an integer",
    source: Source::aip45("Conformance"),
    decides: &["A45-CONF-12"],
    fix: FixKind::Safe,
    docs: include_str!("option-minmax-non-integer.md"),
    ..BASE
};

pub static OPTION_MIN_GT_MAX: Rule = Rule {
    slug: "option-min-gt-max",
    title: "`min` of an option is greater than `max`",
    level: Level::Derived,
    docs: include_str!("option-min-gt-max.md"),
    ..BASE
};

pub static OPTION_DEFAULT_TYPE: Rule = Rule {
    slug: "option-default-type",
    title: "The default of an option has the wrong type",
    decides: &["A45-OPT-09"],
    docs: include_str!("option-default-type.md"),
    ..BASE
};

pub static OPTION_DEFAULT_NOT_IN_ENUM: Rule = Rule {
    slug: "option-default-not-in-enum",
    title: "The default of an option is not in its `enum`",
    decides: &["A45-OPT-09"],
    docs: include_str!("option-default-not-in-enum.md"),
    ..BASE
};

pub static OPTION_DEFAULT_BOUNDS: Rule = Rule {
    slug: "option-default-bounds",
    title: "The default of an option is out of range",
    decides: &["A45-OPT-09"],
    docs: include_str!("option-default-bounds.md"),
    ..BASE
};

pub fn check<'d>(ctx: &RuleContext<'d>, option: &'d Node) {
    // An unknown type has its own finding, and the other checks depend on the type.
    let Some(kind) = type_of(option) else {
        return;
    };
    choices(ctx, option, kind);
    let bounds_valid = bounds(ctx, option, kind);
    if let Some(default) = option.get("default") {
        default_value(ctx, option, kind, default, bounds_valid);
    }
}

fn choices<'d>(ctx: &RuleContext<'d>, option: &'d Node, kind: &str) {
    let Some(entry) = option.entry("enum") else {
        return;
    };
    let list = &entry.value;
    if kind != "enum" {
        return on_non_enum(ctx, option, kind);
    }
    for (item, first) in duplicate_texts(list.items()) {
        let text = item.as_str().unwrap_or("");
        ctx.report(
            FindingDraft::new(
                &OPTION_ENUM_DUPLICATES,
                item,
                format!("duplicate value `{text}` in `enum`"),
            )
            .help("remove one of them")
            .nearby(first.span, "first here")
            .fix_if(
                Safety::Safe,
                "Remove the duplicate",
                edits::remove_item(ctx.doc, list, item),
            ),
        );
    }
}

fn on_non_enum<'d>(ctx: &RuleContext<'d>, option: &'d Node, kind: &str) {
    let (Some(entry), Some(declared)) = (option.entry("enum"), option.get("type")) else {
        return;
    };
    let draft = FindingDraft::new(
        &OPTION_ENUM_ON_NON_ENUM,
        entry,
        format!("`enum` has no effect on an option of type `{kind}`"),
    )
    .nearby(declared.span, "the declared type");
    let items = entry.value.items();
    let fits = |node: &Node| items.iter().any(|item| item.as_str() == node.as_str());
    let all_text = !items.is_empty() && items.iter().all(|item| item.as_str().is_some());
    // A list of strings on a string option can only be its allowed values.
    let is_choice = kind == "string" && all_text && option.get("default").is_none_or(fits);
    ctx.report(if is_choice {
        draft.help("use `type: enum`").fix_if(
            Safety::Safe,
            "Change the type to `enum`",
            edits::set_scalar(ctx.doc, declared, "enum"),
        )
    } else {
        draft.help("remove it, or use `type: enum`").fix_if(
            Safety::Safe,
            "Remove `enum`",
            edits::remove_entry(ctx.doc, option, entry),
        )
    });
}

/// Checks `min` and `max`. Returns false if they contradict each other.
fn bounds<'d>(ctx: &RuleContext<'d>, option: &'d Node, kind: &str) -> bool {
    if kind != "integer" {
        for key in ["min", "max"] {
            let Some(entry) = option.entry(key) else {
                continue;
            };
            let mut draft = FindingDraft::new(
                &OPTION_MINMAX_NON_INTEGER,
                entry,
                format!("`{key}` is only for integers, but this option is of type `{kind}`"),
            )
            .help(format!("remove `{key}`, or make the option an `integer`"))
            .fix_if(
                Safety::Safe,
                format!("Remove `{key}`"),
                edits::remove_entry(ctx.doc, option, entry),
            );
            if let Some(declared) = option.get("type") {
                draft = draft.nearby(declared.span, "not an integer");
            }
            ctx.report(draft);
        }
        return true;
    }
    let (Some(min), Some(max)) = (option.get("min"), option.get("max")) else {
        return true;
    };
    match (min.as_int(), max.as_int()) {
        (Some(least), Some(most)) if least > most => {
            ctx.report(
                FindingDraft::new(
                    &OPTION_MIN_GT_MAX,
                    min,
                    format!("`min` is {least} and `max` is {most}, so no value is allowed"),
                )
                .help("swap them, or correct the one that is wrong")
                .nearby(max.span, "the maximum"),
            );
            false
        }
        _ => true,
    }
}

fn default_value<'d>(
    ctx: &RuleContext<'d>,
    option: &'d Node,
    kind: &str,
    default: &'d Node,
    bounds_valid: bool,
) {
    let fits = match (&default.value, kind) {
        (Value::Bool(_), "boolean") | (Value::Int(_), "integer") => true,
        (Value::Float(f), "integer") => f.fract() == 0.0,
        (Value::Str(_), "string" | "enum") => true,
        _ => false,
    };
    if !fits {
        return ctx.report(wrong_type(ctx, option, kind, default));
    }
    match &default.value {
        Value::Str(text) if kind == "enum" => not_in_enum(ctx, option, default, text),
        Value::Int(number) if bounds_valid => out_of_bounds(ctx, option, default, *number),
        _ => {}
    }
}

fn wrong_type<'d>(
    ctx: &RuleContext<'d>,
    option: &'d Node,
    kind: &str,
    default: &'d Node,
) -> FindingDraft<'d> {
    let found = match default.type_name() {
        "null" => "empty",
        "array" => "a list",
        "object" => "a mapping",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "a boolean",
        _ => "a string",
    };
    let expected = match kind {
        "enum" => "one of the strings in `enum`",
        "integer" => "an integer",
        "boolean" => "`true` or `false`",
        _ => "a string",
    };
    let scalar = !default.is_seq() && !default.is_map() && !default.is_null();
    let help = if scalar && matches!(kind, "string" | "enum") {
        format!("quote it: \"{}\"", ctx.doc.slice(default.span))
    } else if let Some(text) = default.as_str().map(str::trim)
        && parses_as(text, kind)
    {
        format!("write `{text}`, without quotes")
    } else if kind == "integer" {
        "write an integer, for example `default: 3`, or remove `default`".to_owned()
    } else {
        format!("write {expected}, or remove `default`")
    };
    let draft = FindingDraft::new(
        &OPTION_DEFAULT_TYPE,
        default,
        format!("the default is {found}, but an option of type `{kind}` takes {expected}"),
    )
    .help(help);
    match option.get("type") {
        Some(declared) => draft.nearby(declared.span, "the declared type"),
        None => draft,
    }
}

/// Whether a quoted text would have the declared type without its quotes.
fn parses_as(text: &str, kind: &str) -> bool {
    match kind {
        "integer" => text.parse::<i64>().is_ok(),
        "boolean" => matches!(text, "true" | "false"),
        _ => false,
    }
}

fn not_in_enum<'d>(ctx: &RuleContext<'d>, option: &'d Node, default: &'d Node, text: &str) {
    let Some(list) = option.entry("enum") else {
        return;
    };
    let items = list.value.items();
    let comparable = !items.is_empty() && items.iter().all(|item| item.as_str().is_some());
    if !comparable || list.value.strings().any(|(choice, _)| choice == text) {
        return;
    }
    let draft = FindingDraft::new(
        &OPTION_DEFAULT_NOT_IN_ENUM,
        default,
        format!("the default `{text}` is not among the values in `enum`"),
    )
    .nearby(list.key_span, "the values");
    ctx.report(
        match closest_of(text, list.value.strings().map(|(choice, _)| choice)) {
            Some(meant) => draft.help(format!("did you mean `{meant}`?")),
            None => draft.help("add it to `enum`, or choose a default from there"),
        },
    );
}

fn out_of_bounds<'d>(ctx: &RuleContext<'d>, option: &'d Node, default: &'d Node, number: i64) {
    let bound = |key: &str| option.entry(key).and_then(|e| Some((e, e.value.as_int()?)));
    let broken = match (bound("min"), bound("max")) {
        (Some((entry, least)), _) if number < least => {
            Some((entry, format!("below `min` {least}")))
        }
        (_, Some((entry, most))) if number > most => Some((entry, format!("above `max` {most}"))),
        _ => None,
    };
    if let Some((entry, how)) = broken {
        ctx.report(
            FindingDraft::new(
                &OPTION_DEFAULT_BOUNDS,
                default,
                format!("the default {number} is {how}"),
            )
            .help("choose a default within the bounds, or widen them")
            .nearby(entry.span(), "the bound"),
        );
    }
}
