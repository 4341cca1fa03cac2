//! The rules of SECRETS.md (AIP-19).

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const SECRETS: &[Doctype] = &[Doctype::Secrets];

const fn aip19(section: &'static str) -> Source {
    Source {
        spec: "AIP-19",
        section,
    }
}

/// Fragment over the secrets of `gull`: a key for the agent and one for its sandbox.
const fn gull(yaml: &'static str) -> Example {
    Example::over("gull", "SECRETS.md", yaml)
}

pub static SEC_REQUIRED: Rule = Rule {
    slug: "sec-required",
    words: Some(required),
    title: "A secret is not fully declared",
    source: aip19("Frontmatter"),
    decides: &["A29-AUTH-01"],
    doctypes: SECRETS,
    what: "SECRETS.md has a list `secrets`, and each entry has `slug`, `name` and `description`.",
    why: "A reviewer decides by these fields who may see the secret; a host finds it by its slug.",
    bad: gull("secrets:\n  - slug: gull-api-key\n    name: Gull key\n"),
    good: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n",
    ),
    ..Rule::BASE
};

pub static SEC_SLUG_PATTERN: Rule = Rule {
    slug: "sec-slug-pattern",
    words: Some(|ctx, v| ctx.report(slug_pattern(v))),
    title: "A slug is not written as a slug",
    source: aip19("Slug naming"),
    doctypes: SECRETS,
    what: "`slug` has 2 to 80 lower-case letters, digits and dashes, begins with a letter, ends \
           with a letter or digit, and may have one group before a slash.",
    why: "Variable names are derived from slugs; another spelling finds no vault entry.",
    bad: gull(
        "secrets:\n  - slug: GULL_API_KEY\n    name: Gull key\n    description: Pays for the models.\n",
    ),
    good: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n",
    ),
    note: Some("The prose forbids two dashes in a row, the pattern does not. We take the pattern."),
    ..Rule::BASE
};

pub static SEC_KIND_ENUM: Rule = Rule {
    slug: "sec-kind-enum",
    title: "A kind of secret that AIP-19 does not have",
    source: aip19("Frontmatter"),
    doctypes: SECRETS,
    fix: FixKind::Suggest,
    what: "`kind` is `opaque`, `oauth`, `keypair` or `json`.",
    why: "The kind tells the host which shape the vault returns.",
    bad: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n    kind: api-key\n",
    ),
    good: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n    kind: opaque\n",
    ),
    ..Rule::BASE
};

pub static SEC_BACKEND_URI: Rule = Rule {
    slug: "sec-backend-uri",
    words: Some(backend_uri),
    title: "`backend` is not the URI of a vault entry",
    source: aip19("Frontmatter"),
    doctypes: SECRETS,
    what: "`backend` begins with a scheme, as in `vault://driver/path`.",
    why: "The scheme picks the vault driver.",
    bad: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n    backend: kv/gull\n",
    ),
    good: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n    backend: vault://kv/gull\n",
    ),
    ..Rule::BASE
};

pub static SEC_BACKEND_EXPLICIT: Rule = Rule {
    slug: "sec-backend-explicit",
    title: "A vault address stands in the manifest",
    severity: Severity::Warning,
    level: Level::Should,
    source: aip19("Design principles"),
    doctypes: SECRETS,
    what: "An explicit `backend` has been looked at by a reviewer.",
    why: "It shows which vault is used and how it is laid out. Hosts find the entry by its slug, \
          so most manifests need no `backend`.",
    bad: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n    backend: vault://kv/gull\n",
    ),
    good: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n",
    ),
    note: Some("After review, keep it with `# agentproto: ignore[sec-backend-explicit] reason`."),
    ..Rule::BASE
};

pub static SEC_SLUG_UNIQUE: Rule = Rule {
    slug: "sec-slug-unique",
    title: "Two secrets have the same slug",
    source: aip19("Conformance rules"),
    doctypes: SECRETS,
    scope: Scope::CrossField,
    what: "Each slug is declared once.",
    why: "Hosts must reject an inventory with two entries of one slug: their access rules could differ.",
    bad: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n  - slug: gull-api-key\n    name: Archive key\n    description: Pays for the archive.\n",
    ),
    good: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n  - slug: gull-e2b-key\n    name: Archive key\n    description: Pays for the archive.\n",
    ),
    ..Rule::BASE
};

pub static SEC_VALUE_PRESENT: Rule = Rule {
    slug: "sec-value-present",
    words: Some(value_under_not),
    title: "A value stands in SECRETS.md",
    source: aip19("Design principles"),
    doctypes: SECRETS,
    fix: FixKind::Suggest,
    what: "SECRETS.md holds no value: no plain text, no cipher text, no key, no signed link.",
    why: "The file is an inventory that many read. A value in it is leaked, and hosts must reject the file.",
    bad: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n    value: example-only\n",
    ),
    good: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n",
    ),
    ..Rule::BASE
};

pub static SEC_LEGACY_SLOTS: Rule = Rule {
    slug: "sec-legacy-slots",
    title: "SECRETS.md is written in the old `slots` form",
    source: aip19("Frontmatter"),
    doctypes: SECRETS,
    fix: FixKind::Safe,
    what: "Secrets are declared under `secrets`, not under `slots` with `constraints`.",
    why: "AIP-19 has no `slots`: a host that follows it finds no secret in this file.",
    bad: Example::file(
        "gull",
        "SECRETS.md",
        "---\nname: gull-secrets\nslots:\n  - name: GULL_API_KEY\n    description: Pays for the models.\n    required: true\n---\n",
    ),
    good: Example::file(
        "gull",
        "SECRETS.md",
        "---\nsecrets:\n  - slug: gull-api-key\n    name: GULL_API_KEY\n    description: Pays for the models.\n---\n",
    ),
    note: Some(
        "The adapters of the reference implementation still use this form. The fix keeps what \
         AIP-19 has no field for (`required`, `sensitivity`, `constraints`, …) as comments.",
    ),
    ..Rule::BASE
};

pub static SEC_ACCESS_EXACTLY_ONE: Rule = Rule {
    slug: "sec-access-exactly-one",
    words: Some(|ctx, v| ctx.report(grantees(ctx, v))),
    title: "An access grant does not name exactly one grantee",
    source: aip19("Access"),
    doctypes: SECRETS,
    what: "Each entry of `access` has exactly one of `role`, `userId`, `cap`, `tool` and `workflow`.",
    why: "With two, nobody knows whether both are needed; with none, nobody is granted anything.",
    bad: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n    access:\n      bind:\n        - role: researcher\n          tool: search\n",
    ),
    good: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n    access:\n      bind:\n        - role: researcher\n        - tool: search\n",
    ),
    ..Rule::BASE
};

pub static SEC_UNUSED_SLUG: Rule = Rule {
    slug: "sec-unused-slug",
    title: "A secret that no manifest beside it uses",
    severity: Severity::Info,
    level: Level::Derived,
    source: aip19("Bindings"),
    doctypes: SECRETS,
    scope: Scope::CrossFile,
    what: "Each slug is named by a manifest in the same folder, as it stands or as a variable: \
           `stripe-api-key` for `STRIPE_API_KEY`.",
    why: "A secret that nothing uses is access without a purpose, or its user has a typing error.",
    bad: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n  - slug: gull-e2b-key\n    name: Sandbox key\n    description: Opens the sandbox.\n  - slug: gull-mail-password\n    name: Mail password\n    description: From the days when Gull wrote mail.\n",
    ),
    good: gull(
        "secrets:\n  - slug: gull-api-key\n    name: Gull key\n    description: Pays for the models.\n  - slug: gull-e2b-key\n    name: Sandbox key\n    description: Opens the sandbox.\n",
    ),
    note: Some(
        "Silent where no manifest beside the file refers to it, and for secrets that name their \
         user themselves (a tool or workflow in `access`, a file or a substitution in `exposures`).",
    ),
    ..Rule::BASE
};
