//! SECRETS.md (AIP-19): names and rules of secrets, never their values.

mod catalog;
mod migrate;
mod usage;

use catalog::*;

use crate::context::{Context, Draft};
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::shape::{self, Keyword, Violation, draft, repeated_texts};
use agentproto_manifest::{Doctype, Entry, Node, Value};
use agentproto_text::credentials::is_token;

pub static FAMILY: Family = Family {
    name: "secrets",
    rules: &[
        &SEC_REQUIRED,
        &SEC_SLUG_PATTERN,
        &SEC_SLUG_UNIQUE,
        &SEC_KIND_ENUM,
        &SEC_BACKEND_URI,
        &SEC_BACKEND_EXPLICIT,
        &SEC_VALUE_PRESENT,
        &SEC_LEGACY_SLOTS,
        &SEC_ACCESS_EXACTLY_ONE,
        &SEC_UNUSED_SLUG,
    ],
    checks: &[Check {
        doctypes: &[Doctype::Secrets],
        run: check,
    }],
};

/// Keys that can only hold a value.
const VALUE_KEYS: [&str; 7] = [
    "value",
    "plaintext",
    "ciphertext",
    "secret",
    "data",
    "key",
    "token",
];
const GRANTEES: [&str; 5] = ["role", "userId", "cap", "tool", "workflow"];

fn value_under_not<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(match v.entry {
        Some(entry) => value_present(entry),
        None => draft(ctx, v),
    });
}

fn backend_uri<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(
        Draft::new(
            v.rule,
            v.place.clone(),
            "`backend` does not begin with a scheme",
        )
        .help("write `vault://driver/path`, or leave `backend` out: hosts go by the slug"),
    );
}

fn required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    if !said_elsewhere(ctx, v) {
        ctx.report(draft(ctx, v));
    }
}

/// Violations that are part of a mistake which another finding tells as a whole.
pub fn said_elsewhere(ctx: &Context<'_>, v: &Violation<'_>) -> bool {
    if !ctx.is(Doctype::Secrets) {
        return false;
    }
    let old_form = ctx.root.has("slots") && std::ptr::eq(v.node, ctx.root);
    match (v.keyword, v.entry) {
        (Keyword::Required, _) => old_form,
        (Keyword::AdditionalProperties, Some(entry)) if old_form => {
            migrate::OLD_KEYS.contains(&entry.key.as_str())
        }
        // An unknown grantee: sec-access-exactly-one says which there are.
        (Keyword::AdditionalProperties, Some(_)) => {
            v.expected.len() == GRANTEES.len()
                && v.expected
                    .iter()
                    .all(|key| GRANTEES.contains(&key.as_str()))
                && !GRANTEES.iter().any(|key| v.node.has(key))
        }
        _ => false,
    }
}

fn value_present(entry: &Entry) -> Draft<'_> {
    Draft::new(
        &SEC_VALUE_PRESENT,
        entry,
        format!("`{}` holds a value, and SECRETS.md never does", entry.key),
    )
    .help("remove it, put the value in the vault under this slug, and replace it if it was real")
}

fn slug_pattern<'d>(v: &Violation<'d>) -> Draft<'d> {
    let draft = |message| Draft::new(v.rule, v.place.clone(), message);
    if v.keyword == Keyword::MaxLength {
        return draft("the slug is longer than 80 characters").help("shorten it");
    }
    let text = v.node.as_str().unwrap_or_default();
    let near: String = text
        .trim()
        .to_ascii_lowercase()
        .chars()
        .map(|c| {
            if c == '_' || c == ' ' || c == '.' {
                '-'
            } else {
                c
            }
        })
        .collect();
    let is_plain = near.len() > 1
        && near.starts_with(|c: char| c.is_ascii_lowercase())
        && !near.ends_with('-')
        && near
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let help = if is_plain {
        format!("write `{near}`")
    } else {
        "use lower-case letters, digits and dashes, with at most one group: `group/name`".to_owned()
    };
    draft("the slug is not lower-case words joined by dashes").help(help)
}

fn grantees<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> Draft<'d> {
    let named: Vec<&Entry> = v
        .node
        .entries()
        .iter()
        .filter(|e| GRANTEES.contains(&e.key.as_str()))
        .collect();
    match named.as_slice() {
        [first, rest @ ..] if !rest.is_empty() => {
            let mut draft = Draft::new(
                v.rule,
                v.node,
                format!(
                    "a grant names one grantee, and this one names {}",
                    named.len()
                ),
            )
            .help("write one list item for each grantee");
            for entry in std::iter::once(first).chain(rest) {
                draft = draft.nearby(entry.key_span, format!("`{}`", entry.key));
            }
            draft
        }
        _ => shape::draft(ctx, v),
    }
}

fn check(ctx: &Context<'_>) {
    let secrets = ctx.root.get("secrets").map_or(&[][..], Node::items);
    let slots = ctx.root.entry("slots");
    if let Some(slots) = slots {
        legacy(ctx, slots);
    }
    for (slug, first) in repeated_texts(secrets.iter().filter_map(|e| e.get("slug"))) {
        let text = slug.as_str().unwrap_or("");
        ctx.report(
            Draft::new(
                &SEC_SLUG_UNIQUE,
                slug,
                format!("the slug `{text}` is declared twice"),
            )
            .help("merge the two entries, or rename one")
            .nearby(first.span, "first here"),
        );
    }
    for entry in secrets {
        if let Some(backend) = entry.get("backend")
            && backend.as_str().is_some_and(|text| text.contains("://"))
        {
            ctx.report(
                Draft::new(
                    &SEC_BACKEND_EXPLICIT,
                    backend,
                    "an explicit `backend` shows the layout of the vault",
                )
                .help("leave it out if the host finds the entry by its slug; otherwise have it reviewed"),
            );
        }
    }
    // Keys that hold a value are the schema's business; here it is about texts anywhere.
    for entry in ctx.root.entries() {
        hidden_values(ctx, entry, 0);
    }
    if slots.is_none() {
        usage::unused(ctx);
    }
}

fn legacy<'d>(ctx: &Context<'d>, slots: &'d Entry) {
    let mut has_value = false;
    for slot in slots.value.items() {
        for entry in slot.entries() {
            if VALUE_KEYS.contains(&entry.key.as_str()) {
                has_value = true;
                ctx.report(value_present(entry));
            }
        }
    }
    // A value must not live on in a comment.
    let edits = if has_value {
        None
    } else {
        migrate::to_secrets(ctx.doc, ctx.root)
    };
    ctx.report(
        Draft::new(
            &SEC_LEGACY_SLOTS,
            slots,
            "`slots` is an old form; AIP-19 has a list `secrets`",
        )
        .help("declare each as `slug`, `name` and `description` under `secrets`")
        .fix_if(Safety::Safe, "Turn `slots` into `secrets`", edits),
    );
}

/// Tokens, keys and signed links in any text. Depth 2 is the fields of an entry, where the
/// schema has spoken about the keys that can only hold a value.
fn hidden_values<'d>(ctx: &Context<'d>, entry: &'d Entry, depth: usize) {
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
