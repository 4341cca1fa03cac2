//! The file as a whole: fences, YAML, and the general schema rules.

mod body;
mod catalog;
mod fences;
mod problems;

pub use catalog::*;
pub use problems::problem_findings;

use crate::context::{Context, Draft};
use crate::registry::{Check, Family};
use crate::rule::Rule;
use crate::rules::{commands, identity, install, output29, sandbox36, sandbox45, secrets};
use crate::shape::{Keyword, Violation, draft};
use agentproto_manifest::{Doctype, Entry, KeyKind, Node, Style, Value};

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
        &INTERNAL_FAULT,
    ],
    checks: &[
        Check {
            doctypes: &Doctype::ALL,
            run: keys_are_text,
        },
        Check {
            doctypes: &[Doctype::Cli, Doctype::AgentCli],
            run: doctype_is_clear,
        },
        Check {
            doctypes: &[Doctype::Cli],
            run: body::sections,
        },
    ],
};

/// The rules for schema violations that have no slug of their own.
pub fn is_general(rule: &'static Rule) -> bool {
    rule == &FM_TYPE
        || rule == &FM_ENUM
        || rule == &FM_RANGE
        || rule == &FM_REQUIRED_MISSING
        || rule == &FM_UNKNOWN_FIELD
}

/// Families that know a place better than the general rules do; the first that speaks is
/// heard.
fn general<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let said = yaml11_boolean(ctx, v)
        || identity::numeric_version(ctx, v)
        || install::numeric_digest(ctx, v)
        || output29::swapped_value(ctx, v)
        || commands::unapproved(ctx, v)
        // A sandbox block's own rules before those of the manifest that holds it.
        || sandbox36::said_elsewhere(ctx, v)
        || sandbox45::inside_inline_block(ctx, v)
        || secrets::said_elsewhere(ctx, v);
    if !said {
        ctx.report(draft(ctx, v));
    }
}

/// `streaming: yes` is text in YAML 1.2; the author meant a boolean, so quoting is no advice.
fn yaml11_boolean<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
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
        "write `{meant}`; only YAML 1.1 reads this word as a boolean"
    )));
    true
}

/// Keys that YAML reads as numbers, booleans or null. One pass over the keys and nothing
/// else: hardly any file has such a key outside `output.exit_codes`.
fn keys_are_text(ctx: &Context<'_>) {
    let exit_codes = match ctx.doctype {
        Doctype::Cli => ctx.root.at(&["output", "exit_codes"]),
        _ => None,
    };
    keys_below(ctx, ctx.root, exit_codes);
}

/// Depth is bounded by the parser, so recursion is.
fn keys_below<'d>(ctx: &Context<'d>, node: &'d Node, integers_at: Option<&Node>) {
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

fn key_is_not_text<'d>(ctx: &Context<'d>, entry: &'d Entry) {
    let written = ctx.doc.slice(entry.key_span);
    // A key that is a collection is a problem of the document already.
    if entry.key == "?" && entry.key_kind == KeyKind::Other {
        return;
    }
    let kind = match entry.key_kind {
        KeyKind::Int => "an integer",
        _ => "null, a boolean or a number with a fraction",
    };
    ctx.report(
        Draft::new(
            &FM_TYPE,
            entry,
            format!("the key `{written}` is {kind}, not text"),
        )
        .help(format!("quote it: \"{written}\"")),
    );
}

/// The name decides where it can; a free name with the fields of both is a guess.
fn doctype_is_clear(ctx: &Context<'_>) {
    let (Some(commands), Some(protocol)) = (ctx.root.entry("commands"), ctx.root.entry("protocol"))
    else {
        return;
    };
    let name = ctx.doc.path.file_name().and_then(|n| n.to_str());
    if name.and_then(Doctype::from_file_name).is_some() {
        return;
    }
    let (deciding, other) = match ctx.doctype {
        Doctype::AgentCli => (protocol, commands),
        _ => (commands, protocol),
    };
    ctx.report(
        Draft::new(
            &FM_DOCTYPE_AMBIGUOUS,
            deciding,
            format!(
                "the file has both `commands` and `protocol`; it is judged as {} ({})",
                ctx.doctype.file_name(),
                ctx.doctype.spec()
            ),
        )
        .nearby(
            other.key_span,
            format!("`{}` speaks for the other format", other.key),
        )
        .help(
            "a tool that is called once per task is a CLI.md with `commands`; an agent that keeps sessions is an AGENT-CLI.md with `protocol`: name the file after its format and drop the other field",
        ),
    );
}
