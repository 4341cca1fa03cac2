//! A value stands in SECRETS.md.

use super::{SECRETS, VALUE_KEYS, aip19};
use crate::context::{Context, Draft};
use crate::rule::{FixKind, Rule};
use crate::shape::{Violation, draft};
use agentproto_manifest::{Entry, Value};
use agentproto_text::credentials::is_token;

pub static SEC_VALUE_PRESENT: Rule = Rule {
    slug: "sec-value-present",
    words: Some(value_under_not),
    title: "A value stands in SECRETS.md",
    source: aip19("Design principles"),
    doctypes: SECRETS,
    fix: FixKind::Suggest,
    docs: include_str!("sec-value-present.md"),
    ..Rule::BASE
};

fn value_under_not<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(match v.entry {
        Some(entry) => value_present(entry),
        None => draft(ctx, v),
    });
}

pub(super) fn value_present(entry: &Entry) -> Draft<'_> {
    Draft::new(
        &SEC_VALUE_PRESENT,
        entry,
        format!("`{}` holds a value, and SECRETS.md never does", entry.key),
    )
    .help("remove it, put the value in the vault under this slug, and replace it if it was real")
}

/// Tokens, keys and signed links in any text. Depth 2 is the fields of an entry, where the
/// schema has spoken about the keys that can only hold a value.
pub(super) fn hidden_values<'d>(ctx: &Context<'d>, entry: &'d Entry, depth: usize) {
    if depth == 1 && VALUE_KEYS.contains(&entry.key.as_str()) {
        return;
    }
    let report = || {
        ctx.report(
            Draft::new(
                &SEC_VALUE_PRESENT,
                entry,
                format!("`{}` holds what looks like a credential", entry.key),
            )
            .help("remove it, put it in the vault, and replace it if it was real"),
        );
    };
    match &entry.value.value {
        Value::Str(text) if is_token(text) => report(),
        Value::Map(entries) => {
            for entry in entries {
                hidden_values(ctx, entry, depth + 1);
            }
        }
        Value::Seq(items) => {
            for item in items {
                match item.as_str() {
                    Some(text) if is_token(text) => report(),
                    _ => {
                        for entry in item.entries() {
                            hidden_values(ctx, entry, depth + 1);
                        }
                    }
                }
            }
        }
        _ => {}
    }
}
