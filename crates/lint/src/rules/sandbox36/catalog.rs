//! The rules of sandbox blocks (AIP-36).

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

/// A file of its own, or inline in an agent manifest.
const BLOCKS: &[Doctype] = &[Doctype::Sandbox, Doctype::AgentCli];

const fn aip36(section: &'static str) -> Source {
    Source {
        spec: "AIP-36",
        section,
    }
}

/// Fragment over the sandbox of `quill`, the base bundle on Modal.
const fn quill(yaml: &'static str) -> Example {
    Example::over("quill", "quill.SANDBOX.md", yaml)
}

pub static SB36_REQUIRED: Rule = Rule {
    slug: "sb36-required",
    words: Some(required_or_both),
    title: "A sandbox without provider or config",
    source: aip36("Required fields"),
    decides: &["A45-SBX-02"],
    doctypes: BLOCKS,
    what: "A sandbox block has `provider` and `config`.",
    why: "Without them a host knows neither which backend to start nor how.",
    bad: Example::file(
        "fleet",
        "workbench.SANDBOX.md",
        "---\nschema: sandbox/v1\nid: \"@fleet/workbench\"\nversion: 0.2.0\nprovider: local\n---\n",
    ),
    good: Example::file(
        "fleet",
        "workbench.SANDBOX.md",
        "---\nschema: sandbox/v1\nid: \"@fleet/workbench\"\nversion: 0.2.0\nprovider: local\nconfig: {}\n---\n",
    ),
    ..Rule::BASE
};

pub static SB36_PROVIDER_KNOWN: Rule = Rule {
    slug: "sb36-provider-known",
    title: "A provider that AIP-36 does not list",
    severity: Severity::Info,
    level: Level::May,
    source: aip36("Provider enumerated set"),
    decides: &["A45-SBX-03"],
    doctypes: BLOCKS,
    fix: FixKind::Suggest,
    what: "`provider` is one of the six that AIP-36 lists.",
    why: "Hosts may add providers of their own, but must refuse one that they do not know; a \
          misspelt name is found only when the sandbox is started.",
    bad: quill("provider: mastra-modul\n"),
    good: quill("provider: mastra-modal\n"),
    note: Some(
        "C13: the block in AIP-36 lists five providers, the table and the schema six. We take six.",
    ),
    ..Rule::BASE
};

pub static SB36_STANDALONE_FIELDS: Rule = Rule {
    slug: "sb36-standalone-fields",
    title: "SANDBOX.md cannot be addressed",
    severity: Severity::Warning,
    level: Level::Should,
    source: aip36("Standalone-only fields"),
    doctypes: &[Doctype::Sandbox],
    fix: FixKind::Safe,
    what: "A SANDBOX.md has `schema`, `id` and `version`.",
    why: "Other manifests refer to it by id and version; the marker says what the file is.",
    bad: Example::file(
        "fleet",
        "workbench.SANDBOX.md",
        "---\nid: \"@fleet/workbench\"\nversion: 0.2.0\nprovider: local\nconfig: {}\n---\n",
    ),
    good: Example::file(
        "fleet",
        "workbench.SANDBOX.md",
        "---\nschema: sandbox/v1\nid: \"@fleet/workbench\"\nversion: 0.2.0\nprovider: local\nconfig: {}\n---\n",
    ),
    note: Some(
        "The prose adds these fields to every file of its own; the schema, which also serves \
         inline blocks, leaves them optional. A warning.",
    ),
    ..Rule::BASE
};

pub static SB36_CONFIG_SHAPE: Rule = Rule {
    slug: "sb36-config-shape",
    title: "`config` does not fit its provider",
    severity: Severity::Warning,
    source: aip36("Provider config shapes"),
    doctypes: BLOCKS,
    scope: Scope::CrossField,
    what: "`config` has the fields that AIP-36 gives for its provider, and no others.",
    why: "The schema takes any object, so a wrong field is found only when the provider refuses it.",
    bad: quill("config:\n  app_name: quill-desk\n  api_token_ref: quill-modal-credential\n"),
    good: quill(
        "config:\n  app_name: quill-desk\n  function_name: write\n  api_token_ref: quill-modal-credential\n",
    ),
    note: Some(
        "AIP-36 gives no shape for `node-permission`; its `config` is not judged. Nor is that of a \
         provider which AIP-36 does not list.",
    ),
    ..Rule::BASE
};

pub static SB36_PLAINTEXT_CREDENTIAL: Rule = Rule {
    slug: "sb36-plaintext-credential",
    title: "A credential stands in the sandbox block",
    source: aip36("Conformance rules"),
    decides: &["A45-SBX-02"],
    doctypes: BLOCKS,
    what: "No field of a sandbox block holds a credential.",
    why: "The file is shared and reviewed; a credential in it is leaked. Hosts must reject the block.",
    bad: quill(
        "config:\n  app_name: quill-desk\n  function_name: write\n  api_token: not-a-real-token\n",
    ),
    good: quill(
        "config:\n  app_name: quill-desk\n  function_name: write\n  api_token_ref: quill-modal-credential\n",
    ),
    ..Rule::BASE
};

pub static SB36_MOUNT_AT: Rule = Rule {
    slug: "sb36-mount-at",
    // The check says what is wrong with the path.
    words: Some(|_, _| {}),
    title: "A mount point that is not an absolute path",
    source: aip36("Mounts"),
    decides: &["A45-SBX-02"],
    doctypes: BLOCKS,
    what: "`mounts[].at` begins with `/` and has no `..`.",
    why: "The path is inside the sandbox; a relative one depends on where a command starts, and \
          `..` may lead elsewhere.",
    bad: quill("mounts:\n  - source: workspace\n    at: drafts\n"),
    good: quill("mounts:\n  - source: workspace\n    at: /drafts\n"),
    ..Rule::BASE
};

pub static SB36_MOUNT_OVERLAP: Rule = Rule {
    slug: "sb36-mount-overlap",
    title: "A mount hides another one",
    severity: Severity::Warning,
    level: Level::Derived,
    source: aip36("Mounts"),
    doctypes: BLOCKS,
    scope: Scope::CrossField,
    what: "No mount stands at, or above, the mount point of an earlier one.",
    why: "The later mount covers the earlier one, whose files can no longer be seen.",
    bad: quill(
        "mounts:\n  - source: workspace\n    at: /drafts/current\n  - source: { ref: \"@quillworks/archive\" }\n    at: /drafts\n",
    ),
    good: quill(
        "mounts:\n  - source: { ref: \"@quillworks/archive\" }\n    at: /drafts\n  - source: workspace\n    at: /drafts/current\n",
    ),
    ..Rule::BASE
};

pub static SB36_LIFECYCLE_UNSUPPORTED: Rule = Rule {
    slug: "sb36-lifecycle-unsupported",
    title: "A pause that the provider ignores",
    severity: Severity::Info,
    level: Level::May,
    source: aip36("Conformance rules"),
    doctypes: BLOCKS,
    scope: Scope::CrossField,
    what: "A pause is asked only of a provider that can pause and resume.",
    why: "`local`, `mastra-e2b`, `mastra-blaxel` and `node-permission` cannot. The field must be \
          ignored there, so the sandbox never pauses.",
    bad: Example::over(
        "fleet",
        "workbench.SANDBOX.md",
        "lifecycle:\n  pause_after_idle: idle-600\n",
    ),
    good: quill("lifecycle:\n  pause_after_idle: idle-600\n"),
    ..Rule::BASE
};

pub static SB36_LIFECYCLE_LEGACY_KEYS: Rule = Rule {
    slug: "sb36-lifecycle-legacy-keys",
    title: "An old name of a lifecycle field",
    source: aip36("The `sandbox` block"),
    doctypes: BLOCKS,
    fix: FixKind::Safe,
    what: "`lifecycle` uses `pause_after_idle` and `destroy_on`.",
    why: "The schema is closed: a block with the old names is refused.",
    bad: quill("lifecycle:\n  pause_after_idle_ms: 300000\n  destroy_on_workspace_close: true\n"),
    good: quill("lifecycle:\n  pause_after_idle: idle-300\n  destroy_on: workspace-close\n"),
    note: Some(
        "C12: the block and the schema of AIP-36 have `pause_after_idle` and `destroy_on`; a \
         table, the TypeScript type, rule 6 and an example still say `pause_after_idle_ms` and \
         `destroy_on_workspace_close`. We take the schema's names.",
    ),
    ..Rule::BASE
};

pub static SB36_INLINE_AND_REF: Rule = Rule {
    slug: "sb36-inline-and-ref",
    title: "A block is given inline and by reference",
    source: aip36("Conformance rules"),
    doctypes: BLOCKS,
    scope: Scope::CrossField,
    what: "A block is written inline or by reference, never both; this holds for the sandbox and \
           for the storage of each mount.",
    why: "A host cannot know which of the two is meant.",
    bad: quill(
        "mounts:\n  - source:\n      ref: \"@quillworks/archive\"\n      inline: { provider: cloud-bucket, config: { bucket: quill } }\n    at: /drafts\n",
    ),
    good: quill("mounts:\n  - source:\n      ref: \"@quillworks/archive\"\n    at: /drafts\n"),
    ..Rule::BASE
};
