//! SECRETS.md contains the value of a secret.

use super::{SECRETS, VALUE_KEYS, aip19};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Rule};
use crate::shape::{SchemaViolation, draft};
use agentproto_manifest::{Entry, Value};
use agentproto_text::credentials::is_token;
use agentproto_text::truncate;

pub static SEC_VALUE_PRESENT: Rule = Rule {
    slug: "sec-value-present",
    report: Some(value_under_not),
    title: "SECRETS.md contains the value of a secret",
    source: aip19("Design principles"),
    doctypes: SECRETS,
    fix: FixKind::Suggest,
    docs: include_str!("sec-value-present.md"),
    ..Rule::BASE
};

fn value_under_not<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) {
    ctx.report(match v.entry {
        Some(entry) => value_present(entry),
        None => draft(ctx, v),
    });
}

pub(super) fn value_present(entry: &Entry) -> FindingDraft<'_> {
    FindingDraft::new(
        &SEC_VALUE_PRESENT,
        entry,
        format!(
            "`{}` contains a secret value, which is not allowed in SECRETS.md",
            entry.key
        ),
    )
    .help(format!(
        "remove `{}`, store the secret with `agentproto auth set TARGET SLUG`, and rotate it if it was real",
        truncate(&entry.key, 40)
    ))
}

/// Reports tokens, keys and signed links in any text. Keys of an entry that always hold a value
/// (depth 1) are skipped, because the schema reports them.
pub(super) fn hidden_values<'d>(ctx: &RuleContext<'d>, entry: &'d Entry, depth: usize) {
    if depth == 1 && VALUE_KEYS.contains(&entry.key.as_str()) {
        return;
    }
    let report = || {
        ctx.report(
            FindingDraft::new(
                &SEC_VALUE_PRESENT,
                entry,
                format!("`{}` contains text that looks like a credential", entry.key),
            )
            .help("remove it, store the secret with `agentproto auth set TARGET SLUG`, and rotate it if it was real"),
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
