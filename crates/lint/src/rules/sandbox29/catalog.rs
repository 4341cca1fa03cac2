//! The records of the AIP-29 sandbox rules.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const SANDBOX: Source = Source {
    spec: "AIP-29",
    section: "Sandbox",
};

/// The bundle's own block, and the narrowed one of a subcommand tool.
const BOTH: &[Doctype] = &[Doctype::Cli, Doctype::Tool];

pub static REQUIRED_BLOCKS: Rule = Rule {
    slug: "sb29-required-blocks",
    words: Some(required_block),
    title: "The sandbox does not name all four of its blocks",
    source: SANDBOX,
    decides: &["A29-REQ-11"],
    doctypes: &[Doctype::Cli],
    fix: FixKind::Safe,
    what: "`sandbox` names `network`, `fs`, `exec` and `env`, each of them even where it grants nothing.",
    why: "A block that is not there reads as forgotten; an empty one says that nothing is granted.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs:\n    read: [~/.config/forge/**]\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs:\n    read: [~/.config/forge/**]\n  exec:\n    allow: false\n  env: {}\n",
    ),
    ..Rule::BASE
};

pub static EXEC_ALLOW_REQUIRED: Rule = Rule {
    slug: "sb29-exec-allow-required",
    words: Some(allow_required),
    title: "`sandbox.exec` does not say whether child processes are allowed",
    source: SANDBOX,
    decides: &["A29-SBX-08"],
    doctypes: BOTH,
    what: "`sandbox.exec` has `allow`, true or false.",
    why: "Starting other programs is the widest door of a sandbox; the schema wants it opened or shut in so many words.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec: {}\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: false\n  env: {}\n",
    ),
    ..Rule::BASE
};

pub static SPAWN_WITHOUT_ALLOW: Rule = Rule {
    slug: "sb29-spawn-without-allow",
    title: "A spawn list stands beside `allow: false`",
    severity: Severity::Warning,
    level: Level::May,
    source: SANDBOX,
    decides: &["A29-SBX-09"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "`sandbox.exec.spawn` lists programs only where `sandbox.exec.allow` is true.",
    why: "With `allow: false` no child process may start, so the list grants nothing and the command that needs it fails.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: false\n    spawn: [git]\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: true\n    spawn: [git]\n  env: {}\n",
    ),
    note: Some(
        "C8: the example in AIP-29 §Sandbox has `allow: false` with a spawn list, its full example has `allow: true`. The table makes the list count only under `allow: true`; hence a warning, not an error.",
    ),
    ..Rule::BASE
};

pub static ALLOW_NO_SPAWN_LIST: Rule = Rule {
    slug: "sb29-allow-no-spawn-list",
    title: "Child processes are allowed but none is named",
    severity: Severity::Warning,
    level: Level::May,
    source: SANDBOX,
    decides: &["A29-SBX-09"],
    doctypes: &[Doctype::Cli],
    scope: Scope::CrossField,
    what: "Where `sandbox.exec.allow` is true, `sandbox.exec.spawn` names the programs.",
    why: "The spawn list is the allowlist: without it a strict host lets nothing start, and a lax one lets everything start.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: true\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: true\n    spawn: [git]\n  env: {}\n",
    ),
    ..Rule::BASE
};

pub static SPAWN_PRIVILEGED: Rule = Rule {
    slug: "sb29-spawn-privileged",
    title: "The spawn list holds a program that can start any other",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source {
        spec: "AIP-29",
        section: "Security considerations",
    },
    decides: &["A29-SEC-08"],
    doctypes: BOTH,
    what: "`sandbox.exec.spawn` holds no shell, no launcher such as `env` or `xargs`, no `sudo` and no wildcard.",
    why: "Through a shell or a launcher every program can be reached, so the allowlist no longer bounds anything.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: true\n    spawn: [git, bash]\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: true\n    spawn: [git]\n  env: {}\n",
    ),
    ..Rule::BASE
};

pub static EGRESS_WILDCARD: Rule = Rule {
    slug: "sb29-egress-wildcard",
    title: "Egress is open to every host",
    severity: Severity::Warning,
    level: Level::Should,
    source: SANDBOX,
    decides: &["A29-SBX-02"],
    doctypes: BOTH,
    what: "`sandbox.network.egress` names hosts, or globs below a domain, never all hosts at once.",
    why: "A bare `*` lets the command send whatever it can read to anyone; the authoring guide calls it a bug.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network:\n    egress: [\"*\"]\n  fs: {}\n  exec:\n    allow: false\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network:\n    egress: [\"*.forge.example\"]\n  fs: {}\n  exec:\n    allow: false\n  env: {}\n",
    ),
    ..Rule::BASE
};

pub static EGRESS_CIDR_PORT_SCHEME: Rule = Rule {
    slug: "sb29-egress-cidr-port-scheme",
    title: "An egress entry is not a host name or a glob of one",
    source: SANDBOX,
    decides: &["A29-SBX-03"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    what: "Each entry of `sandbox.network.egress` is a host name or a glob: no scheme, no port, no path, no CIDR block, no regular expression.",
    why: "Hosts match the entry against the name that is looked up; anything more never matches, so the call is blocked.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network:\n    egress: [\"https://api.forge.example:443\"]\n  fs: {}\n  exec:\n    allow: false\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network:\n    egress: [api.forge.example]\n  fs: {}\n  exec:\n    allow: false\n  env: {}\n",
    ),
    ..Rule::BASE
};

pub static INGRESS_URL: Rule = Rule {
    slug: "sb29-ingress-url",
    title: "An ingress entry is not a URL",
    severity: Severity::Warning,
    level: Level::May,
    source: SANDBOX,
    decides: &["A29-SBX-04"],
    doctypes: BOTH,
    what: "Each entry of `sandbox.network.ingress` is a URL with its scheme.",
    why: "Egress takes host names, ingress the URLs that the host has to expose for a login callback; a bare name tells it neither scheme nor path.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network:\n    ingress: [callback.forge.example]\n  fs: {}\n  exec:\n    allow: false\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network:\n    ingress: [\"https://callback.forge.example/cli\"]\n  fs: {}\n  exec:\n    allow: false\n  env: {}\n",
    ),
    ..Rule::BASE
};

pub static FS_GLOB_INVALID: Rule = Rule {
    slug: "sb29-fs-glob-invalid",
    title: "A file pattern is not a well-formed glob",
    source: SANDBOX,
    decides: &["A29-SBX-05"],
    doctypes: BOTH,
    what: "Entries of `fs.read`, `fs.write` and `fs.deny` are globs whose brackets and braces close.",
    why: "A host cannot enforce a pattern that it cannot read; a broken `deny` entry protects nothing.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs:\n    read: [\"~/.config/forge/[a-z\"]\n  exec:\n    allow: false\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs:\n    read: [\"~/.config/forge/[a-z]*\"]\n  exec:\n    allow: false\n  env: {}\n",
    ),
    ..Rule::BASE
};

pub static FS_BROAD_WRITE: Rule = Rule {
    slug: "sb29-fs-broad-write",
    title: "Write access covers the whole disk or the whole home directory",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SANDBOX,
    doctypes: BOTH,
    what: "No entry of `sandbox.fs.write` takes in all of `/` or all of `~`.",
    why: "Who may write to the home directory may change shell start-up files and keys, and is out of the sandbox at the next login.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs:\n    write: [\"~/**\"]\n  exec:\n    allow: false\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs:\n    write: [~/.config/forge/**]\n  exec:\n    allow: false\n  env: {}\n",
    ),
    ..Rule::BASE
};

pub static DENY_SHADOWS: Rule = Rule {
    slug: "sb29-deny-shadows",
    title: "A granted path is denied as a whole",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SANDBOX,
    decides: &["A29-SBX-07"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "No entry of `fs.deny` takes in all that an entry of `fs.read` or `fs.write` grants.",
    why: "Deny wins, so the grant is dead text: either the command fails where it needs the path, or the line misleads.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs:\n    read: [~/.config/forge/**]\n    deny: [~/.config/**]\n  exec:\n    allow: false\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs:\n    read: [~/.config/forge/**]\n    deny: [~/.config/forge/keys/**]\n  exec:\n    allow: false\n  env: {}\n",
    ),
    ..Rule::BASE
};

pub static ENV_SET_SECRET: Rule = Rule {
    slug: "sb29-env-set-secret",
    title: "A secret is written into `env.set`",
    source: Source {
        spec: "AIP-36",
        section: "Conformance rules",
    },
    doctypes: BOTH,
    what: "`sandbox.env.set` gives no literal value to a variable that holds a secret.",
    why: "A manifest is version-controlled and shared; a secret in it is out. AIP-19 keeps values out of manifests, AIP-36 has hosts reject them.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: false\n  env:\n    set:\n      FORGE_TOKEN: a1b2c3d4e5\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: false\n  env:\n    pass: [FORGE_TOKEN]\n    set:\n      FORGE_PROMPT_DISABLED: \"1\"\n",
    ),
    ..Rule::BASE
};

pub static ENV_PASS_AND_SET: Rule = Rule {
    slug: "sb29-env-pass-and-set",
    title: "A variable is both passed and set",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SANDBOX,
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "No variable stands in both `env.pass` and `env.set`.",
    why: "`set` wins whatever the host has, so the value that the user exports is dropped without a word.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: false\n  env:\n    pass: [FORGE_HOST]\n    set:\n      FORGE_HOST: forge.example\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs: {}\n  exec:\n    allow: false\n  env:\n    pass: [FORGE_HOST]\n    set:\n      FORGE_PAGER: cat\n",
    ),
    ..Rule::BASE
};

pub static SSH_NOT_DENIED: Rule = Rule {
    slug: "sb29-ssh-not-denied",
    title: "A broad read of the home directory takes in the SSH keys",
    severity: Severity::Info,
    level: Level::Derived,
    source: SANDBOX,
    doctypes: &[Doctype::Cli],
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "Where `fs.read` takes in the home directory, `fs.deny` keeps `~/.ssh` out.",
    why: "Private keys are the first thing that a misled agent can leak; the spec's own example denies them.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs:\n    read: [\"~/**\"]\n  exec:\n    allow: false\n  env: {}\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "sandbox:\n  network: {}\n  fs:\n    read: [\"~/**\"]\n    deny: [~/.ssh/**]\n  exec:\n    allow: false\n  env: {}\n",
    ),
    ..Rule::BASE
};
