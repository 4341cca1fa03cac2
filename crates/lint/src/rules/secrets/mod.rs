//! SECRETS.md (AIP-19): declares names and access rules of secrets, never their values.

mod migrate;
mod sec_access_exactly_one;
mod sec_backend_uri;
mod sec_kind_enum;
mod sec_legacy_slots;
mod sec_required;
mod sec_slug_pattern;
mod sec_value_present;
mod usage;

use crate::context::{FindingDraft, RuleContext};
use crate::registry::{Family, FamilyCheck};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use crate::shape::{Keyword, SchemaViolation, duplicate_texts};
use agentproto_manifest::{Doctype, Node};

use sec_access_exactly_one::SEC_ACCESS_EXACTLY_ONE;
use sec_backend_uri::SEC_BACKEND_URI;
use sec_kind_enum::SEC_KIND_ENUM;
use sec_legacy_slots::{SEC_LEGACY_SLOTS, legacy};
use sec_required::SEC_REQUIRED;
use sec_slug_pattern::SEC_SLUG_PATTERN;
use sec_value_present::{SEC_VALUE_PRESENT, hidden_values, value_present};
use usage::SEC_UNUSED_SLUG;

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
    checks: &[FamilyCheck {
        doctypes: &[Doctype::Secrets],
        run: check,
    }],
};

const SECRETS: &[Doctype] = &[Doctype::Secrets];

const fn aip19(section: &'static str) -> Source {
    Source {
        spec: "AIP-19",
        section,
    }
}

pub static SEC_BACKEND_EXPLICIT: Rule = Rule {
    slug: "sec-backend-explicit",
    title: "The manifest contains a vault address",
    severity: Severity::Warning,
    level: Level::Should,
    source: aip19("Design principles"),
    doctypes: SECRETS,
    docs: include_str!("sec-backend-explicit.md"),
    ..Rule::BASE
};

pub static SEC_SLUG_UNIQUE: Rule = Rule {
    slug: "sec-slug-unique",
    title: "Two secrets have the same slug",
    source: aip19("Conformance rules"),
    doctypes: SECRETS,
    scope: Scope::CrossField,
    docs: include_str!("sec-slug-unique.md"),
    ..Rule::BASE
};

/// Keys that always hold the value of a secret.
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

/// Whether another finding of this family covers the violation. If so, the general rule must not
/// report it.
pub fn reported_elsewhere(ctx: &RuleContext<'_>, v: &SchemaViolation<'_>) -> bool {
    if !ctx.is(Doctype::Secrets) {
        return false;
    }
    let old_form = ctx.root.has("slots") && std::ptr::eq(v.node, ctx.root);
    match (v.keyword, v.entry) {
        (Keyword::Required, _) => old_form,
        (Keyword::AdditionalProperties, Some(entry)) if old_form => {
            migrate::OLD_KEYS.contains(&entry.key.as_str())
        }
        // An unknown grantee: `sec-access-exactly-one` reports it and lists the valid ones.
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

fn check(ctx: &RuleContext<'_>) {
    let secrets = ctx.root.get("secrets").map_or(&[][..], Node::items);
    let slots = ctx.root.entry("slots");
    if let Some(slots) = slots {
        legacy(ctx, slots);
    }
    for (slug, first) in duplicate_texts(secrets.iter().filter_map(|e| e.get("slug"))) {
        let text = slug.as_str().unwrap_or("");
        ctx.report(
            FindingDraft::new(&SEC_SLUG_UNIQUE, slug, format!("duplicate slug `{text}`"))
                .help("merge the two entries, or rename one")
                .nearby(first.span, "first here"),
        );
    }
    for entry in secrets {
        if let Some(backend) = entry.get("backend")
            && backend.as_str().is_some_and(|text| text.contains("://"))
        {
            ctx.report(
                FindingDraft::new(
                    &SEC_BACKEND_EXPLICIT,
                    backend,
                    "an explicit `backend` reveals the layout of the vault",
                )
                .help(
                    "remove it if the host finds the entry by its slug; otherwise have it reviewed",
                ),
            );
        }
    }
    // Schema violations report keys that always hold a value. This check searches all other texts.
    for entry in ctx.root.entries() {
        hidden_values(ctx, entry, 0);
    }
    if slots.is_none() {
        usage::unused(ctx);
    }
}
