//! The records of the rules about the file as a whole.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const FRONTMATTER: Source = Source {
    spec: "AIP-29",
    section: "Frontmatter",
};
const SCHEMA: Source = Source {
    spec: "AIP-45",
    section: "Conformance",
};
const OWN: Source = Source {
    spec: "agentproto",
    section: "Reading manifests",
};

pub static FM_MISSING: Rule = Rule {
    slug: "fm-missing",
    title: "The file has no frontmatter",
    level: Level::Must,
    source: FRONTMATTER,
    decides: &["A29-FM-01"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    what: "A manifest begins with a YAML frontmatter that has at least one field.",
    why: "Hosts read nothing but the frontmatter; without it the file says nothing to them.",
    bad: Example::file(
        "harbor",
        "SANDBOX.md",
        "# Quay\n\nOne environment per workspace.\n",
    ),
    good: Example::file(
        "harbor",
        "SANDBOX.md",
        "---\nprovider: local\nconfig: {}\n---\n\nOne environment per workspace.\n",
    ),
    ..Rule::BASE
};

pub static FM_DELIMITERS: Rule = Rule {
    slug: "fm-delimiters",
    title: "A `---` line of the frontmatter is missing or misplaced",
    level: Level::Must,
    source: FRONTMATTER,
    decides: &["A29-FM-01"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Safe,
    what: "The frontmatter stands between two `---` lines, and the first of them is the first line of the file.",
    why: "Readers look for the fences literally: one out of place hides every field, or feeds the body to the YAML reader.",
    bad: Example::file(
        "harbor",
        "SANDBOX.md",
        "---\nprovider: local\nconfig: {}\n\n## Notes\n\nOne environment: yours.\n",
    ),
    good: Example::file(
        "harbor",
        "SANDBOX.md",
        "---\nprovider: local\nconfig: {}\n---\n\n## Notes\n\nOne environment: yours.\n",
    ),
    ..Rule::BASE
};

pub static FM_YAML_SYNTAX: Rule = Rule {
    slug: "fm-yaml-syntax",
    title: "The frontmatter is not valid YAML",
    level: Level::Must,
    source: FRONTMATTER,
    decides: &["A29-FM-01"],
    doctypes: &Doctype::ALL,
    what: "The frontmatter is one YAML document, nested at most 128 levels deep and with at most 200,000 keys and values.",
    why: "What cannot be parsed cannot be judged: no other rule says anything about this file until the syntax is mended.",
    bad: Example::file(
        "harbor",
        "SANDBOX.md",
        "---\nprovider: local\nconfig: {}\nnetwork:\n  egress: [api.harbor.example\n---\n",
    ),
    good: Example::file(
        "harbor",
        "SANDBOX.md",
        "---\nprovider: local\nconfig: {}\nnetwork:\n  egress: [api.harbor.example]\n---\n",
    ),
    ..Rule::BASE
};

pub static FM_NOT_MAPPING: Rule = Rule {
    slug: "fm-not-mapping",
    title: "The frontmatter is not a mapping",
    level: Level::Must,
    source: FRONTMATTER,
    decides: &["A29-FM-01"],
    doctypes: &Doctype::ALL,
    what: "The frontmatter is a mapping of field names to values.",
    why: "A list or a bare text has no fields, so every required field is missing at once.",
    bad: Example::file(
        "harbor",
        "SANDBOX.md",
        "---\n- provider: local\n- config: {}\n---\n",
    ),
    good: Example::file(
        "harbor",
        "SANDBOX.md",
        "---\nprovider: local\nconfig: {}\n---\n",
    ),
    ..Rule::BASE
};

pub static FM_DUPLICATE_KEY: Rule = Rule {
    slug: "fm-duplicate-key",
    title: "A key stands twice in one mapping",
    level: Level::Must,
    source: Source {
        spec: "YAML 1.2",
        section: "3.2.1.3 Node comparison",
    },
    decides: &["A29-FM-01"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    what: "Within one mapping every key stands once.",
    why: "Some readers keep the first value, some the last, some refuse the file: what the manifest says depends on who reads it.",
    bad: Example::file(
        "harbor",
        "SANDBOX.md",
        "---\nprovider: local\nconfig: {}\nprovider: mastra-e2b\n---\n",
    ),
    good: Example::file(
        "harbor",
        "SANDBOX.md",
        "---\nprovider: local\nconfig: {}\n---\n",
    ),
    ..Rule::BASE
};

pub static FM_ENCODING: Rule = Rule {
    slug: "fm-encoding",
    title: "The file is not UTF-8",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    what: "A manifest is UTF-8 text.",
    why: "Hosts read manifests as UTF-8; other bytes become replacement characters or stop the reader.",
    ..Rule::BASE
};

pub static FM_TYPE: Rule = Rule {
    slug: "fm-type",
    words: Some(general),
    title: "A field has the wrong type",
    level: Level::Must,
    source: SCHEMA,
    decides: &[
        "A45-CONF-01",
        "A44-CONF-04",
        "A29-OPT-09",
        "A29-OPT-12",
        "A45-FM-18",
        "A45-CAP-02",
        "A45-CAP-03",
        "A45-CAP-04",
        "A45-CAP-05",
        "A45-CAP-06",
        "A45-CAP-07",
        "A45-CAP-08",
    ],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    what: "Every field has the type that its schema gives it, and every key is text; only the keys of `output.exit_codes` may be integers.",
    why: "A host reads the field by its type; another type is refused or, worse, misread.",
    bad: Example::over("harbor", "AGENT-CLI.md", "description: [a, list]\n"),
    good: Example::over(
        "harbor",
        "AGENT-CLI.md",
        "description: Talks to the harbour.\n",
    ),
    note: Some(
        "C20: the schema types the keys of `output.exit_codes` as strings while every example writes YAML integers; integers are read as strings there, and only there. C21: the AIPs publish their schemas below `/docs/` and refer to each other below `/schemas/`, so one published reference leads nowhere; here a schema answers to both addresses, offline.",
    ),
    ..Rule::BASE
};

pub static FM_ENUM: Rule = Rule {
    slug: "fm-enum",
    words: Some(general),
    title: "A field has a value outside its enumeration",
    level: Level::Must,
    source: SCHEMA,
    decides: &[
        "A45-CONF-01",
        "A44-CONF-04",
        "A29-SETUP-06",
        "A29-OUT-01",
        "A29-OUT-12",
    ],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    what: "A field with a closed list of values has one of them.",
    why: "Hosts switch on the value; one that they do not know is refused or ignored.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "output:\n  default_format: xml\n  json_flag: --json\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "output:\n  default_format: json\n  json_flag: --json\n",
    ),
    ..Rule::BASE
};

pub static FM_RANGE: Rule = Rule {
    slug: "fm-range",
    words: Some(general),
    title: "A field is outside its bounds",
    level: Level::Must,
    source: SCHEMA,
    decides: &["A45-CONF-01"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    what: "Numbers, lengths, list sizes and patterns keep to the bounds of the schema.",
    why: "A value out of bounds is refused when the manifest is loaded, or fails later and further away.",
    bad: Example::over("harbor", "AGENT-CLI.md", "requires:\n  min_disk_mb: -5\n"),
    good: Example::over("harbor", "AGENT-CLI.md", "requires:\n  min_disk_mb: 5\n"),
    ..Rule::BASE
};

pub static FM_REQUIRED_MISSING: Rule = Rule {
    slug: "fm-required-missing",
    words: Some(general),
    title: "A required field is missing",
    level: Level::Must,
    source: SCHEMA,
    decides: &[
        "A45-CONF-01",
        "A44-CONF-04",
        "A29-REQ-01",
        "A29-REQ-02",
        "A29-REQ-04",
        "A29-REQ-05",
        "A29-REQ-07",
        "A29-REQ-09",
        "A29-REQ-10",
        "A29-REQ-11",
        "A29-REQ-12",
        "A29-AUTH-04",
        "A44-FM-01",
        "A44-FM-02",
        "A44-FM-03",
        "A44-FM-04",
        "A44-FM-05",
        "A44-FM-06",
        "A44-FM-07",
        "A44-FM-08",
        "A45-FM-01",
        "A45-FM-02",
        "A45-FM-03",
        "A45-FM-04",
        "A45-FM-05",
        "A45-FM-07",
        "A45-FM-08",
        "A45-FM-12",
    ],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    what: "Every field that the schema requires is there.",
    why: "A host refuses a manifest that lacks one.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "auth:\n  ref: ./SECRETS.md\n  state:\n    env: [FORGE_TOKEN, FORGE_OAUTH_TOKEN]\n  login:\n    interactive: true\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "auth:\n  ref: ./SECRETS.md\n  state:\n    env: [FORGE_TOKEN, FORGE_OAUTH_TOKEN]\n  login:\n    cmd: forge auth login\n    interactive: true\n",
    ),
    note: Some(
        "C29: a sample in the reference implementation's guide has other field names and no `range`, and does not satisfy its own schema. The required fields of the AIPs are what counts.",
    ),
    ..Rule::BASE
};

pub static FM_UNKNOWN_FIELD: Rule = Rule {
    slug: "fm-unknown-field",
    words: Some(general),
    title: "A field that the schema does not know",
    level: Level::Must,
    source: SCHEMA,
    decides: &["A45-CONF-01", "A45-FM-16", "A45-AUTH-02"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    what: "Mappings that the schema closes have no other fields than the schema's. The top level of ACP.md is open and may have any.",
    why: "An unknown field is a typing mistake or a wish that no host grants; strict hosts refuse the file.",
    bad: Example::over(
        "quill",
        "AGENT-CLI.md",
        "session:\n  mode: persistent\n  idle_timout_ms: 1800000\n",
    ),
    good: Example::over(
        "quill",
        "AGENT-CLI.md",
        "session:\n  mode: persistent\n  idle_timeout_ms: 1800000\n",
    ),
    note: Some(
        "C1: AIP-29 puts `runner` and a narrowed `sandbox` into TOOL.md, AIP-14 closes TOOL.md without them. Both are accepted in a tool that belongs to a CLI bundle (its `runner.cli` leads to a CLI.md, or a CLI.md above it names it) and are unknown elsewhere. D1-D12: fields that only the reference implementation knows are unknown here and warnings in profile `reference`. C27: the prose of AIP-14 documents `implements` and its schema omits it, and one of its own examples fails its schema; the schema is followed.",
    ),
    ..Rule::BASE
};

pub static FM_DOCTYPE_AMBIGUOUS: Rule = Rule {
    slug: "fm-doctype-ambiguous",
    title: "Neither name nor fields tell a tool CLI from an agent CLI",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "AIP-45",
        section: "Scope",
    },
    decides: &["A45-SCOPE-01"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli],
    scope: Scope::CrossField,
    what: "A manifest with a free file name has `commands` (a tool, AIP-29) or `protocol` (an agent, AIP-45), not both.",
    why: "The format is guessed from the fields when the file name does not tell it; a wrong guess judges the file by the wrong spec.",
    bad: Example::file(
        "quill",
        "PLUME.md",
        "---\nname: plume\nbin: plume\nprotocol: proprietary\nadapter: plume-adapter\ncommands:\n  draft: ./tools/draft/TOOL.md\n---\n",
    ),
    good: Example::file(
        "quill",
        "PLUME.md",
        "---\nname: plume\nbin: plume\nprotocol: proprietary\nadapter: plume-adapter\n---\n",
    ),
    ..Rule::BASE
};

pub static FM_DOCTYPE_UNKNOWN: Rule = Rule {
    slug: "fm-doctype-unknown",
    title: "Neither the name nor the fields tell what manifest this is",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    what: "A file that is linted is named like a manifest (`CLI.md`, `hermes.ACP.md`), or its fields tell the format.",
    why: "Without a format there is no schema to judge by, and silence would look like a pass.",
    bad: Example::file("quill", "PLUME.md", "---\ntitle: Plume\n---\n"),
    good: Example::file(
        "quill",
        "PLUME.md",
        "---\nname: plume\nbin: plume\nprotocol: proprietary\nadapter: plume-adapter\n---\n",
    ),
    ..Rule::BASE
};

pub static FM_YAML11_SCALAR: Rule = Rule {
    slug: "fm-yaml11-scalar",
    title: "YAML 1.1 and YAML 1.2 read this value differently",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "YAML 1.2",
        section: "10.3 Core schema",
    },
    doctypes: &Doctype::ALL,
    fix: FixKind::Safe,
    what: "Unquoted values have the same type in YAML 1.1 and YAML 1.2: not `no`, `on`, `0777`, `1_000` or `12:30:00`.",
    why: "Hosts use readers of both versions: the text `no` in one is `false` in the other.",
    bad: Example::over(
        "quill",
        "AGENT-CLI.md",
        "metadata:\n  quillworks:\n    spellcheck: off\n",
    ),
    good: Example::over(
        "quill",
        "AGENT-CLI.md",
        "metadata:\n  quillworks:\n    spellcheck: \"off\"\n",
    ),
    ..Rule::BASE
};

pub static FM_YAML_FEATURE: Rule = Rule {
    slug: "fm-yaml-feature",
    title: "Anchors, aliases, merge keys or tags in the frontmatter",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "YAML 1.2",
        section: "6.9 Node properties",
    },
    doctypes: &Doctype::ALL,
    fix: FixKind::Suggest,
    what: "The frontmatter uses plain YAML: no anchors (`&x`), aliases (`*x`), merge keys (`<<`) or tags of its own (`!x`).",
    why: "Frontmatter readers differ: some refuse these, some take `<<` for a field, some drop the tag.",
    bad: Example::over(
        "quill",
        "AGENT-CLI.md",
        "metadata:\n  quillworks:\n    drafts: &place desk\n    letters: *place\n",
    ),
    good: Example::over(
        "quill",
        "AGENT-CLI.md",
        "metadata:\n  quillworks:\n    drafts: desk\n    letters: desk\n",
    ),
    ..Rule::BASE
};

pub static BODY_SECTIONS_RECOMMENDED: Rule = Rule {
    slug: "body-sections-recommended",
    title: "The body lacks a recommended section",
    severity: Severity::Info,
    level: Level::Should,
    source: Source {
        spec: "AIP-29",
        section: "Body",
    },
    decides: &["A29-BODY-01"],
    doctypes: &[Doctype::Cli],
    fix: FixKind::Safe,
    what: "The body of a CLI.md has the sections \"When to reach for this CLI\", \"Gotchas\", \"Debugging\" and \"Reference\".",
    why: "People and models look there when the fields do not answer: when to use the tool, what goes wrong, where to read on.",
    bad: Example::file(
        "forge",
        "CLI.md",
        "---\nname: Forge CLI\nid: forge\n---\n\n## When to reach for this CLI\n\nFor merge requests.\n\n## Reference\n\n- https://docs.forge.example\n",
    ),
    good: Example::file(
        "forge",
        "CLI.md",
        "---\nname: Forge CLI\nid: forge\n---\n\n## When to reach for this CLI\n\nFor merge requests.\n\n## Gotchas\n\nOld tokens do not grow.\n\n## Debugging\n\nSet `FORGE_DEBUG=1`.\n\n## Reference\n\n- https://docs.forge.example\n",
    ),
    ..Rule::BASE
};

pub static FILE_TOO_LARGE: Rule = Rule {
    slug: "file-too-large",
    title: "The file is too large to be a manifest",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    what: "A manifest has at most 4 MiB.",
    why: "A manifest is a page or two; a larger file is something else under its name, and reading it would only cost memory.",
    ..Rule::BASE
};

pub static FILE_UNREADABLE: Rule = Rule {
    slug: "file-unreadable",
    title: "The file cannot be read",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    what: "A file that is to be linted exists, is a regular file and may be read.",
    why: "A file that was not read was not judged, and must not look as if it had passed.",
    ..Rule::BASE
};

pub static INTERNAL_FAULT: Rule = Rule {
    slug: "internal-fault",
    title: "A rule failed inside agentproto",
    level: Level::Must,
    source: OWN,
    doctypes: &Doctype::ALL,
    what: "Every rule that was to judge the file came to an end.",
    why: "The defect is in agentproto, not in the file; the file was not judged in full and must not look as if it had passed.",
    ..Rule::BASE
};
