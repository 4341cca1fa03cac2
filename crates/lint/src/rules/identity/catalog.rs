//! The records of the identity rules.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

pub static ID_PATTERN: Rule = Rule {
    slug: "id-pattern",
    words: Some(bad_id),
    title: "The id is not written the way the spec asks for",
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-02", "A44-FM-02", "A45-FM-02"],
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Sandbox,
        Doctype::Tool,
        Doctype::Operator,
    ],
    fix: FixKind::Safe,
    what: "`id` has 2 to 64 lower-case letters, digits and dashes and starts with a letter or digit. A tool's id may also have dots, an operator's id starts with a letter, and a sandbox's id is `@owner/slug`.",
    why: "Registries, caches and audit logs use the id as a key; one that breaks the pattern is refused at load.",
    bad: Example::over("forge", "CLI.md", "id: Forge\n"),
    good: Example::over("forge", "CLI.md", "id: forge\n"),
    ..Rule::BASE
};

pub static NAME_LENGTH: Rule = Rule {
    slug: "name-length",
    words: Some(bad_length),
    title: "The name is empty or longer than 80 characters",
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-01"],
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Secrets,
        Doctype::Tool,
        Doctype::Operator,
    ],
    what: "`name` has 1 to 80 characters.",
    why: "The name is what people see in lists and dialogs; hosts refuse an empty one and one that does not fit.",
    bad: Example::over("forge", "CLI.md", "name: \"\"\n"),
    good: Example::over("forge", "CLI.md", "name: Forge CLI\n"),
    ..Rule::BASE
};

pub static NAME_KEBAB_EQUALS_DIR: Rule = Rule {
    slug: "name-kebab-equals-dir",
    title: "The name is not the kebab-case name of the directory",
    severity: Severity::Warning,
    level: Level::Must,
    source: Source {
        spec: "AIP-45",
        section: "Frontmatter",
    },
    decides: &["A44-FM-01", "A45-FM-01"],
    doctypes: &[Doctype::AgentCli, Doctype::Acp],
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    what: "In AGENT-CLI.md and ACP.md, `name` is kebab case and equals the name of the directory that holds the file. A file called `slug.ACP.md` or `slug.AGENT-CLI.md` may use its slug instead; any other file name is held against the directory.",
    why: "Hosts that look a bundle up by its directory find another name inside and take it for another bundle.",
    bad: Example::over("quill", "AGENT-CLI.md", "name: Quill Writer\n"),
    good: Example::over("quill", "AGENT-CLI.md", "name: quill\n"),
    note: Some(
        "C3: AIP-29 calls `name` a display name, AIP-44 and AIP-45 call it a kebab id that equals the directory, and no schema enforces it. CLI.md keeps its display name; for the other two this is a warning, because existing manifests carry display names. The specs do not say what holds when one directory has several ACP files, so the slug before `.ACP.md` is accepted too.",
    ),
    ..Rule::BASE
};

pub static FOLDER_EQUALS_ID: Rule = Rule {
    slug: "folder-equals-id",
    title: "The bundle's folder is not named after its id",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source {
        spec: "AIP-29",
        section: "File location",
    },
    decides: &["A29-FILE-03"],
    doctypes: &[Doctype::Cli],
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    what: "The folder that holds CLI.md has the same name as the manifest's `id`.",
    why: "People look for a bundle by its folder and hosts by its id; when the two differ, one of them looks in the wrong place.",
    bad: Example::over("forge", "CLI.md", "id: anvil\n"),
    good: Example::over("forge", "CLI.md", "id: forge\n"),
    ..Rule::BASE
};

pub static DESCRIPTION_LENGTH: Rule = Rule {
    slug: "description-length",
    words: Some(bad_length),
    title: "The description is empty or longer than 2000 characters",
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-04", "A44-FM-03", "A45-FM-03"],
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Secrets,
        Doctype::Tool,
    ],
    what: "`description` has 1 to 2000 characters: one paragraph for a model that decides whether to call this.",
    why: "The description goes into the caller's prompt. Without one nothing is ever called; a very long one costs every turn.",
    bad: Example::over("gull", "AGENT-CLI.md", "description: \"\"\n"),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "description: Research agent that reads archives and cites them.\n",
    ),
    ..Rule::BASE
};

pub static VERSION_SEMVER: Rule = Rule {
    slug: "version-semver",
    words: Some(bad_version),
    title: "The manifest's version is not a semantic version",
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    decides: &["A29-REQ-05", "A44-FM-04", "A45-FM-04"],
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Sandbox,
        Doctype::Tool,
        Doctype::Operator,
    ],
    fix: FixKind::Safe,
    what: "`version` is major, minor and patch, with at most one pre-release (`-rc.1`) or build part (`+7`).",
    why: "Identity is id and major version; without three numbers a host cannot tell which bundle this is.",
    bad: Example::over("gull", "AGENT-CLI.md", "version: v1.5\n"),
    good: Example::over("gull", "AGENT-CLI.md", "version: 1.5.0\n"),
    note: Some(
        "The published pattern takes a pre-release or a build part but not both, so `1.0.0-rc.1+7` is refused although it is a semantic version. We follow the schema.",
    ),
    ..Rule::BASE
};

pub static VERSION_LOOSE_PATTERN: Rule = Rule {
    slug: "version-loose-pattern",
    title: "The version passes the schema but is not a semantic version",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "AIP-29",
        section: "Required fields",
    },
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Sandbox,
        Doctype::Tool,
        Doctype::Operator,
    ],
    fix: FixKind::Suggest,
    what: "A `version` that fits the schema's pattern is also a semantic version: no leading zeros, no empty or odd parts after the dash.",
    why: "The schema's pattern is looser than semver; tools that parse the version strictly stop at what it lets through.",
    bad: Example::over("gull", "AGENT-CLI.md", "version: 01.5.0\n"),
    good: Example::over("gull", "AGENT-CLI.md", "version: 1.5.0\n"),
    ..Rule::BASE
};

pub static TAG_PATTERN: Rule = Rule {
    slug: "tag-pattern",
    words: Some(bad_tag),
    title: "A tag is not lower-case letters, digits and dashes",
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-14"],
    doctypes: &[
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Secrets,
        Doctype::Tool,
        Doctype::Operator,
    ],
    fix: FixKind::Safe,
    what: "Each tag is made of lower-case letters, digits and dashes and starts with a letter or digit (in OPERATOR.md and SECRETS.md with a letter).",
    why: "Tags are compared letter by letter; `DevOps` and `devops` would be two groups.",
    bad: Example::over("forge", "CLI.md", "tags: [git, Code Hosting]\n"),
    good: Example::over("forge", "CLI.md", "tags: [git, code-hosting]\n"),
    ..Rule::BASE
};

pub static TAGS_UNIQUE: Rule = Rule {
    slug: "tags-unique",
    words: Some(double_tag),
    title: "A tag stands twice",
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-14"],
    doctypes: &[Doctype::Cli, Doctype::AgentCli, Doctype::Acp, Doctype::Tool],
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    what: "No tag is listed more than once.",
    why: "The schema asks for unique items and refuses the manifest otherwise; usually another tag was meant.",
    bad: Example::over("forge", "CLI.md", "tags: [git, devops, git]\n"),
    good: Example::over("forge", "CLI.md", "tags: [git, devops]\n"),
    ..Rule::BASE
};

pub static METADATA_NOT_NAMESPACED: Rule = Rule {
    slug: "metadata-not-namespaced",
    title: "A metadata key has no namespace",
    severity: Severity::Info,
    level: Level::May,
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-15"],
    doctypes: &[Doctype::Cli],
    what: "Data under `metadata` sits below a key that names its owner: `metadata.docker.image`, or a key that carries the owner (`docker.image`).",
    why: "Two tools that both write `metadata.image` overwrite each other; below their own keys they cannot.",
    bad: Example::over("forge", "CLI.md", "metadata:\n  image: forge:3.4.1\n"),
    good: Example::over(
        "forge",
        "CLI.md",
        "metadata:\n  docker:\n    image: forge:3.4.1\n",
    ),
    ..Rule::BASE
};
