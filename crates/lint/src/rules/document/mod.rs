//! The file as a whole: frontmatter fences, YAML, and the general schema rules.

mod body;
mod fences;
mod file_too_large;
mod file_unreadable;
mod fm_doctype_ambiguous;
mod fm_enum;
mod fm_range;
mod fm_required_missing;
mod fm_type;
mod fm_unknown_field;
mod internal_fault;
mod manifest_link_escapes;
mod problems;

use crate::context::RuleContext;
use crate::registry::{Family, FamilyCheck};
use crate::rule::{Rule, Source};
use crate::rules::{commands, identity, install, output29, sandbox36, sandbox45, secrets};
use crate::shape::{Keyword, SchemaViolation, draft};
use agentproto_manifest::{Doctype, KeyKind, Node, Style, Value};

use body::BODY_SECTIONS_RECOMMENDED;
pub use file_too_large::FILE_TOO_LARGE;
pub use file_unreadable::FILE_UNREADABLE;
use fm_doctype_ambiguous::{FM_DOCTYPE_AMBIGUOUS, doctype_is_clear};
pub use fm_enum::FM_ENUM;
pub use fm_range::FM_RANGE;
pub use fm_required_missing::FM_REQUIRED_MISSING;
pub use fm_type::FM_TYPE;
use fm_type::key_is_not_text;
pub use fm_unknown_field::FM_UNKNOWN_FIELD;
pub use internal_fault::INTERNAL_FAULT;
pub use manifest_link_escapes::MANIFEST_LINK_ESCAPES;
use problems::{
    FM_DELIMITERS, FM_DOCTYPE_UNKNOWN, FM_DUPLICATE_KEY, FM_ENCODING, FM_MISSING, FM_NOT_MAPPING,
    FM_YAML_FEATURE, FM_YAML_SYNTAX,
};
pub use problems::{FM_YAML11_SCALAR, problem_findings};

pub static FAMILY: Family = Family {
    name: "document",
    rules: &[
        &FM_MISSING,
        &FM_DELIMITERS,
        &FM_YAML_SYNTAX,
        &FM_NOT_MAPPING,
        &FM_DUPLICATE_KEY,
        &FM_ENCODING,
        &FM_TYPE,
        &FM_ENUM,
        &FM_RANGE,
        &FM_REQUIRED_MISSING,
        &FM_UNKNOWN_FIELD,
        &FM_DOCTYPE_AMBIGUOUS,
        &FM_DOCTYPE_UNKNOWN,
        &FM_YAML11_SCALAR,
        &FM_YAML_FEATURE,
        &BODY_SECTIONS_RECOMMENDED,
        &FILE_TOO_LARGE,
        &FILE_UNREADABLE,
        &MANIFEST_LINK_ESCAPES,
        &INTERNAL_FAULT,
    ],
    checks: &[
        FamilyCheck {
            doctypes: &Doctype::ALL,
            run: keys_are_text,
        },
        FamilyCheck {
            doctypes: &[Doctype::Cli, Doctype::AgentCli],
            run: doctype_is_clear,
        },
        FamilyCheck {
            doctypes: &[Doctype::Cli],
            run: body::sections,
        },
    ],
};

const SCHEMA: Source = Source {
    spec: "AIP-45",
    section: "Conformance",
};

const OWN: Source = Source {
    spec: "agentproto",
    section: "Reading manifests",
};

/// Whether a rule covers the schema violations that have no specific rule.
pub fn is_general(rule: &'static Rule) -> bool {
    rule == &FM_TYPE
        || rule == &FM_ENUM
        || rule == &FM_RANGE
        || rule == &FM_REQUIRED_MISSING
        || rule == &FM_UNKNOWN_FIELD
}

/// Lets the families with more specific messages report a violation. If none of them does, reports
/// it with the general message.
fn report_general<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    let reported = report_yaml11_boolean(ctx, v)
        || identity::numeric_version(ctx, v)
        || install::report_numeric_placeholder_digest(ctx, v)
        || output29::swapped_value(ctx, v)
        || commands::report_missing_approval(ctx, v)
        // The rules of a sandbox block come before those of the manifest that contains it.
        || sandbox36::reported_elsewhere(ctx, v)
        || sandbox45::inside_inline_block(ctx, v)
        || secrets::reported_elsewhere(ctx, v);
    if !reported {
        ctx.report(draft(ctx, v));
    }
}

/// Reports a word such as `yes`, which is a string in YAML 1.2, in place of a boolean. The author
/// meant a boolean, so the help must not suggest quotes.
fn report_yaml11_boolean<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> bool {
    if v.keyword != Keyword::Type || v.node.style != Style::Plain {
        return false;
    }
    let meant = match v.node.as_str() {
        Some("y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON") => "true",
        Some("n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF") => "false",
        _ => return false,
    };
    if !v.expected.iter().any(|e| e == "boolean") {
        return false;
    }
    ctx.report(draft(ctx, v).help(format!(
        "write `{meant}`: only YAML 1.1 reads this word as a boolean"
    )));
    true
}

/// Reports keys that YAML reads as numbers, booleans or null. Integers are allowed in
/// `output.exit_codes`. Hardly any file has such a key elsewhere, so this is a single cheap pass.
fn keys_are_text(ctx: &RuleContext<'_>) {
    let exit_codes = match ctx.doctype {
        Doctype::Cli => ctx.root.at(&["output", "exit_codes"]),
        _ => None,
    };
    keys_below(ctx, ctx.root, exit_codes);
}

/// The parser limits the nesting depth, so the recursion is bounded.
fn keys_below<'d>(ctx: &RuleContext<'d>, node: &'d Node, integers_at: Option<&Node>) {
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                if entry.key_kind != KeyKind::Str {
                    let integers = integers_at.is_some_and(|n| std::ptr::eq(n, node));
                    if !(integers && entry.key_kind == KeyKind::Int) {
                        key_is_not_text(ctx, entry);
                    }
                }
                keys_below(ctx, &entry.value, integers_at);
            }
        }
        Value::Seq(items) => {
            for item in items {
                keys_below(ctx, item, integers_at);
            }
        }
        _ => {}
    }
}
