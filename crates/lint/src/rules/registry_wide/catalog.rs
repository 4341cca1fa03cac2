//! The records of the rules over many manifests.

use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const IDENTITY: Source = Source {
    spec: "AIP-29",
    section: "Stable identity",
};

pub static ID_MAJOR_UNIQUE: Rule = Rule {
    slug: "id-major-unique",
    title: "Two manifests share an id and a major version",
    source: IDENTITY,
    decides: &["A29-ID-01", "A29-ID-02"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli, Doctype::Acp],
    scope: Scope::Registry,
    what: "No two manifests of one kind have the same `id` and the same major version with different minor or patch versions. Different majors are different bundles.",
    why: "Caches, audit logs and tool registrations are keyed by id and major; the second manifest takes the place of the first.",
    bad: Example::file(
        "fleet",
        "adapters/otter-old/ACP.md",
        "---\nname: otter-old\nid: otter-acp\ndescription: Otter as it was.\nversion: 0.0.9\n---\n",
    ),
    good: Example::file(
        "fleet",
        "adapters/otter-old/ACP.md",
        "---\nname: otter-old\nid: otter-acp\ndescription: Otter as it will be.\nversion: 1.0.0\n---\n",
    ),
    note: Some(
        "AIP-29 says it of CLI.md; AIP-44 and AIP-45 take their identity fields from there. A registry is what one run lints.",
    ),
    ..Rule::BASE
};

pub static ID_UNIQUE_REGISTRY: Rule = Rule {
    slug: "id-unique-registry",
    title: "Two manifests share an id and a version",
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-03"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli, Doctype::Acp],
    scope: Scope::Registry,
    what: "No two manifests of one kind have the same `id` and the same `version` in one registry.",
    why: "Which of the two a host loads depends on the order in which it reads them; usually one is a copy that was never renamed.",
    bad: Example::file(
        "fleet",
        "adapters/stoat/ACP.md",
        "---\nname: stoat\nid: otter-acp\ndescription: Copied from otter.\nversion: 0.1.0\n---\n",
    ),
    good: Example::file(
        "fleet",
        "adapters/stoat/ACP.md",
        "---\nname: stoat\nid: stoat-acp\ndescription: Copied from otter.\nversion: 0.1.0\n---\n",
    ),
    note: Some(
        "The table says that an id is unique within a registry, §Stable identity that different majors of one id are distinct bundles. So an equal major is an error and a different one is not; AIP-44 and AIP-45 ids are held to the same.",
    ),
    ..Rule::BASE
};

pub static RANGE_MAJOR_BUMP: Rule = Rule {
    slug: "range-major-bump",
    title: "The range admits a new major of the binary, the manifest keeps its own",
    severity: Severity::Warning,
    level: Level::Should,
    source: IDENTITY,
    decides: &["A29-ID-04"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli],
    scope: Scope::Registry,
    fix: FixKind::Suggest,
    what: "Compared with the base revision: when `version_check.range` begins to admit another major version of the binary, the major of the manifest's `version` rises too.",
    why: "Tools that were written for the old range may break with the new binary, and only the manifest's major tells their users.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "version_check:\n  cmd: forge --version\n  parse: 'forge version (\\d+\\.\\d+\\.\\d+)'\n  range: \">=4.0.0 <5.0.0\"\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "version: 2.0.0\nversion_check:\n  cmd: forge --version\n  parse: 'forge version (\\d+\\.\\d+\\.\\d+)'\n  range: \">=4.0.0 <5.0.0\"\n",
    ),
    note: Some("Needs a revision to compare with: it speaks only in a run with `--changed`."),
    ..Rule::BASE
};

pub static SHAPE_VERSION_BUMP: Rule = Rule {
    slug: "shape-version-bump",
    title: "The bundle changed its shape, but not its version",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-06"],
    doctypes: &[Doctype::Cli],
    scope: Scope::Registry,
    fix: FixKind::Suggest,
    what: "Compared with the base revision: a CLI.md that gained a key in `sandbox` or lost an install method has a higher `version`.",
    why: "A host that has this version already does not look again, so it never learns of the new permission or the lost method.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "install:\n  - { method: brew, package: forgehost/tap/forge }\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "version: 1.5.0\ninstall:\n  - { method: brew, package: forgehost/tap/forge }\n",
    ),
    note: Some("Needs a revision to compare with: it speaks only in a run with `--changed`."),
    ..Rule::BASE
};

pub static REG_BIN_COLLISION: Rule = Rule {
    slug: "reg-bin-collision",
    title: "Two bundles claim the same binary",
    severity: Severity::Warning,
    level: Level::Derived,
    source: IDENTITY,
    doctypes: &[Doctype::Cli, Doctype::AgentCli],
    scope: Scope::Registry,
    what: "No two manifests of one kind with different ids have the same `bin`. Launchers such as `npx`, `uvx` and `docker`, and paths, do not count.",
    why: "Each bundle installs and checks its own version of the binary; on one $PATH only one of them can be right.",
    bad: Example::file(
        "fleet",
        "adapters/sea-otter/AGENT-CLI.md",
        "---\nname: sea-otter\nid: sea-otter\ndescription: Otter at sea.\nversion: 1.0.0\nbin: otter\nprotocol: acp\n---\n",
    ),
    good: Example::file(
        "fleet",
        "adapters/sea-otter/AGENT-CLI.md",
        "---\nname: sea-otter\nid: sea-otter\ndescription: Otter at sea.\nversion: 1.0.0\nbin: sea-otter\nprotocol: acp\n---\n",
    ),
    ..Rule::BASE
};

pub static REG_SECRET_SLUG_COLLISION: Rule = Rule {
    slug: "reg-secret-slug-collision",
    title: "One secret slug means different things",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "AIP-19",
        section: "Slugs",
    },
    doctypes: &[Doctype::Secrets],
    scope: Scope::Registry,
    what: "A slug that several SECRETS.md files declare has the same `kind` in all of them.",
    why: "The vault has one slot per slug: a bundle that expects a plain key gets the OAuth token of another one.",
    bad: Example::file(
        "fleet",
        "SECRETS.md",
        "---\nsecrets:\n  - slug: otter-api-key\n    name: Otter login\n    description: Same slug, another kind of secret.\n    kind: oauth\n---\n",
    ),
    good: Example::file(
        "fleet",
        "SECRETS.md",
        "---\nsecrets:\n  - slug: otter-login\n    name: Otter login\n    description: A slug of its own.\n    kind: oauth\n---\n",
    ),
    ..Rule::BASE
};

pub static REG_REF_CYCLE: Rule = Rule {
    slug: "reg-ref-cycle",
    title: "Manifests refer to each other in a circle",
    level: Level::Derived,
    source: Source {
        spec: "AIP-44",
        section: "Operator binding",
    },
    doctypes: &[Doctype::AgentCli, Doctype::Acp, Doctype::Operator],
    scope: Scope::Registry,
    what: "Following `acp`, `metadata.aip44.operator` and `runtime.ref` from a manifest never leads back to it. A tool that names its CLI, which names the tool, is no circle of this kind.",
    why: "To start the operator a host starts the agent, which serves the operator, which starts the agent: it never ends.",
    bad: Example::over(
        "harbor",
        "keeper.OPERATOR.md",
        "runtime:\n  kind: agent-cli\n  ref: ./AGENT-CLI.md\n",
    ),
    good: Example::over(
        "harbor",
        "keeper.OPERATOR.md",
        "runtime:\n  kind: in-process\n",
    ),
    ..Rule::BASE
};
