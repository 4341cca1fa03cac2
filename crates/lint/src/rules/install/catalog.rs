//! The records of the install rules.

use super::claims::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const BOTH: &[Doctype] = &[Doctype::Cli, Doctype::AgentCli];

const METHODS: Source = Source {
    spec: "AIP-29",
    section: "Install methods",
};
const REQUIRED: Source = Source {
    spec: "AIP-29",
    section: "Required fields",
};
const OPTIONAL: Source = Source {
    spec: "AIP-29",
    section: "Optional fields",
};
const ADAPTER: Source = Source {
    spec: "AIP-29",
    section: "ADAPTER: Install method dispatch",
};
const SECURITY: Source = Source {
    spec: "AIP-29",
    section: "Security considerations",
};

pub static BIN_PATTERN: Rule = Rule {
    slug: "bin-pattern",
    words: Some(|ctx, v| bad_bin(ctx, v.node)),
    title: "The binary's name has characters that it may not have",
    source: REQUIRED,
    decides: &["A29-REQ-07", "A45-FM-05"],
    doctypes: BOTH,
    what: "`bin` is made of letters, digits, `.`, `_`, `-` and `/`.",
    why: "Hosts start the binary by this text alone, without a shell; anything else in it is refused.",
    bad: Example::over("forge", "CLI.md", "bin: forge$3\n"),
    good: Example::over("forge", "CLI.md", "bin: forge-3\n"),
    ..Rule::BASE
};

pub static BIN_SINGLE_TOKEN: Rule = Rule {
    slug: "bin-single-token",
    title: "The binary is given as more than one word",
    source: REQUIRED,
    decides: &["A29-REQ-08"],
    doctypes: BOTH,
    what: "`bin` is a single token without white space; arguments go into `bin_args`.",
    why: "There is no shell that would split the text; a host looks for a file whose name has a space in it.",
    bad: Example::over("gull", "AGENT-CLI.md", "bin: gull serve\n"),
    good: Example::over("gull", "AGENT-CLI.md", "bin: gull\nbin_args: [serve]\n"),
    ..Rule::BASE
};

pub static BIN_NOT_PATH: Rule = Rule {
    slug: "bin-not-path",
    title: "The binary of a CLI.md is a path, not a name",
    severity: Severity::Warning,
    source: REQUIRED,
    decides: &["A29-REQ-07"],
    doctypes: &[Doctype::Cli],
    what: "In CLI.md, `bin` is the name under which the binary is found on $PATH after installation.",
    why: "A path holds on one machine; every other install method puts the binary somewhere else.",
    bad: Example::over("forge", "CLI.md", "bin: /usr/local/bin/forge\n"),
    good: Example::over("forge", "CLI.md", "bin: forge\n"),
    note: Some(
        "AIP-45 calls `bin` a path to the binary and the schemas allow a slash, so AGENT-CLI.md is left alone and CLI.md gets a warning only.",
    ),
    ..Rule::BASE
};

pub static BIN_ARGS_STRINGS: Rule = Rule {
    slug: "bin-args-strings",
    words: Some(|ctx, v| bad_argument(ctx, v.node)),
    title: "A default argument is not a string",
    source: OPTIONAL,
    decides: &["A29-OPT-01", "A45-FM-06"],
    doctypes: BOTH,
    fix: FixKind::Safe,
    what: "Each item of `bin_args` is a string.",
    why: "YAML reads `8080`, `true` and `1.10` as numbers and booleans; an argument has to arrive as it was written.",
    bad: Example::over("forge", "CLI.md", "bin_args: [--depth, 3]\n"),
    good: Example::over("forge", "CLI.md", "bin_args: [--depth, \"3\"]\n"),
    ..Rule::BASE
};

pub static INSTALL_EMPTY: Rule = Rule {
    slug: "install-empty",
    words: Some(no_method),
    title: "There is no way to install the binary",
    source: REQUIRED,
    decides: &["A29-REQ-09", "A45-FM-07"],
    doctypes: BOTH,
    what: "`install` lists at least one method.",
    why: "Without one the binary can only be there by luck, and the host has nothing to offer when it is not.",
    bad: Example::over("gull", "AGENT-CLI.md", "install: []\n"),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - { method: pip, package: gull-agent }\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_METHOD_UNKNOWN: Rule = Rule {
    slug: "install-method-unknown",
    words: Some(unknown_method),
    title: "An install method that the spec does not know",
    source: METHODS,
    decides: &["A29-INSTALL-19", "A29-INSTALL-20", "A45-FM-07"],
    doctypes: BOTH,
    what: "`method` is one of brew, apt, dnf, pacman, choco, scoop, npm, pip, cargo, go, curl, download and vendored.",
    why: "A host skips a method that it does not know; if it was only misspelled, that way to install is lost.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - { method: homebrew, package: gull }\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - { method: brew, package: gull }\n",
    ),
    note: Some(
        "C6: the schema's list is closed, the prose lets a bundle ship an unknown method marked `experimental: true`. Unmarked it is an error, marked a warning, since hosts skip it either way.",
    ),
    ..Rule::BASE
};

pub static INSTALL_REQUIRED_FIELD: Rule = Rule {
    slug: "install-required-field",
    words: Some(missing_field),
    title: "An install method lacks a field that it needs",
    source: METHODS,
    decides: &[
        "A29-INSTALL-02",
        "A29-INSTALL-03",
        "A29-INSTALL-04",
        "A29-INSTALL-05",
        "A29-INSTALL-06",
        "A29-INSTALL-07",
        "A29-INSTALL-08",
        "A29-INSTALL-09",
        "A29-INSTALL-10",
        "A29-INSTALL-11",
        "A29-INSTALL-12",
        "A29-INSTALL-14",
        "A29-INSTALL-15",
        "A45-CONF-02",
    ],
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "Package managers need `package`, `curl` needs `url`, `download` needs `url` and `extract_bin`, `vendored` needs `path`.",
    why: "The host has the method but not what to install; it gives up on this entry.",
    bad: Example::over("gull", "AGENT-CLI.md", "install:\n  - method: cargo\n"),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: cargo\n    package: gull-agent\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_EXTRA_FIELD: Rule = Rule {
    slug: "install-extra-field",
    words: Some(extra_field),
    title: "An install method has a field that it does not take",
    source: METHODS,
    decides: &[
        "A29-INSTALL-02",
        "A29-INSTALL-03",
        "A29-INSTALL-04",
        "A29-INSTALL-05",
        "A29-INSTALL-06",
        "A29-INSTALL-07",
        "A29-INSTALL-08",
        "A29-INSTALL-09",
        "A29-INSTALL-10",
        "A29-INSTALL-11",
    ],
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "Each install method has only the fields that the table gives it (and `experimental`).",
    why: "Hosts refuse the entry, or pass over the field: a digest under a wrong name is never checked.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - { method: npm, package: \"@gull/cli@1.8.0\", globally: true }\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - { method: npm, package: \"@gull/cli@1.8.0\", global: true }\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_URL_URI: Rule = Rule {
    slug: "install-url-uri",
    words: Some(|ctx, v| bad_url(ctx, v.node)),
    title: "The URL of an install method is not an absolute URI",
    source: METHODS,
    decides: &["A29-INSTALL-12", "A29-INSTALL-14"],
    doctypes: BOTH,
    what: "`url` of `curl` and `download` is an absolute URI, scheme included.",
    why: "A host cannot fetch `get.example.com/install.sh`: it does not know by which protocol.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: get.gull.example/install.sh\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: https://get.gull.example/1.8.0/install.sh\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_URL_HTTPS: Rule = Rule {
    slug: "install-url-https",
    title: "Something to run is fetched without encryption",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SECURITY,
    doctypes: BOTH,
    fix: FixKind::Safe,
    what: "`url` of an install method uses https. Addresses of the own machine are left alone.",
    why: "Whoever sits between the host and the server can put their own program in place of yours.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: http://get.gull.example/1.8.0/install.sh\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: https://get.gull.example/1.8.0/install.sh\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_SHA256_FORMAT: Rule = Rule {
    slug: "install-sha256-format",
    words: Some(|ctx, v| bad_digest(ctx, v.node)),
    title: "The digest is not 64 lower-case hex digits",
    source: METHODS,
    decides: &["A29-INSTALL-12", "A29-INSTALL-14"],
    doctypes: BOTH,
    fix: FixKind::Safe,
    what: "`verify_sha256` is 64 hex digits in lower case, without a prefix.",
    why: "The host compares it with what it computes; a digest that is written differently never matches, and the install fails.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: https://get.gull.example/1.8.0/install.sh\n    verify_sha256: 9C1185A5C5E9FC54612808977EE8F548B2258D31B0F3C8C3B5A1A7A7A0E6F1D2\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: https://get.gull.example/1.8.0/install.sh\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_SHA256_PLACEHOLDER: Rule = Rule {
    slug: "install-sha256-placeholder",
    title: "The digest is a placeholder",
    source: METHODS,
    decides: &["A29-INSTALL-12", "A29-INSTALL-14"],
    doctypes: BOTH,
    what: "`verify_sha256` is the digest of the file itself, not a stand-in such as `abc123…`, `<sha256>`, a row of zeros or the digest of an empty file.",
    why: "The host must verify a supplied digest, so with a stand-in the installation can only fail.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: https://get.gull.example/1.8.0/install.sh\n    verify_sha256: abc123...\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: https://get.gull.example/1.8.0/install.sh\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    note: Some(
        "C14: five printed examples carry such stand-ins although they are said to validate. The schema's pattern decides; a row of equal digits passes it and is caught here all the same.",
    ),
    ..Rule::BASE
};

pub static INSTALL_CURL_NO_SHA256: Rule = Rule {
    slug: "install-curl-no-sha256",
    title: "A shell installer is not pinned by a digest",
    severity: Severity::Warning,
    level: Level::Should,
    source: METHODS,
    decides: &["A29-INSTALL-13"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "A `curl` method has `verify_sha256`.",
    why: "The host runs whatever the server sends that day; in production it should decline to.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: https://get.gull.example/1.8.0/install.sh\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: https://get.gull.example/1.8.0/install.sh\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_DOWNLOAD_NO_SHA256: Rule = Rule {
    slug: "install-download-no-sha256",
    title: "A downloaded archive is not pinned by a digest",
    severity: Severity::Warning,
    level: Level::Should,
    source: SECURITY,
    decides: &["A29-SEC-02"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "A `download` method has `verify_sha256`.",
    why: "Hosts verify the digest of what they fetch; without one, a replaced archive is installed like the right one.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: download\n    url: https://downloads.gull.example/1.8.0/gull.zip\n    extract_bin: gull-1.8.0/gull\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: download\n    url: https://downloads.gull.example/1.8.0/gull.zip\n    extract_bin: gull-1.8.0/gull\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_CURL_MUTABLE_URL: Rule = Rule {
    slug: "install-curl-mutable-url",
    title: "The installer's URL names a branch",
    severity: Severity::Info,
    level: Level::Derived,
    source: METHODS,
    doctypes: BOTH,
    what: "`url` of a `curl` method has no part such as `main`, `master`, `HEAD` or `latest`.",
    why: "What is behind a branch changes, so a digest for it is wrong after the next commit.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: https://code.gull.example/raw/main/install.sh\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: curl\n    url: https://code.gull.example/raw/v1.8.0/install.sh\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_ALL_EXPERIMENTAL: Rule = Rule {
    slug: "install-all-experimental",
    title: "Every install method is marked experimental",
    severity: Severity::Warning,
    level: Level::Should,
    source: METHODS,
    decides: &["A29-INSTALL-21"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "At least one install method is not marked `experimental: true`.",
    why: "Hosts skip experimental methods with a warning; when all are, nothing can be installed.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - { method: pip, package: gull-agent, experimental: true }\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - { method: pip, package: gull-agent }\n  - { method: cargo, package: gull-agent, experimental: true }\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_DUPLICATE: Rule = Rule {
    slug: "install-duplicate",
    title: "An install method is listed twice",
    severity: Severity::Info,
    level: Level::Derived,
    source: METHODS,
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    what: "No two entries of `install` say the same.",
    why: "Hosts try the list in order; the second copy costs time and cannot succeed where the first failed.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - { method: pip, package: gull-agent }\n  - { method: pip, package: gull-agent }\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - { method: pip, package: gull-agent }\n  - { method: pip, package: gull-agent, user: true }\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_VENDORED_MISSING: Rule = Rule {
    slug: "install-vendored-missing",
    title: "The vendored binary is not there or cannot be run",
    source: ADAPTER,
    decides: &["A29-INSTALL-15"],
    doctypes: BOTH,
    scope: Scope::CrossFile,
    what: "`path` of a `vendored` method names an executable file, relative to the folder of the manifest.",
    why: "A host must check this before it calls the bundle available; without the file there is nothing to run.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "install:\n  - { method: vendored, path: ./bin/forge-next }\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "install:\n  - { method: vendored, path: ./bin/forge }\n",
    ),
    note: Some(
        "AIP-29's table calls the path workspace-relative, its ADAPTER text relative to the bundle's folder. The example `./bin/gh` fits both; we follow ADAPTER, which says who has to check it.",
    ),
    ..Rule::BASE
};

pub static INSTALL_VENDORED_TRAVERSAL: Rule = Rule {
    slug: "install-vendored-traversal",
    title: "The vendored binary lies outside the workspace",
    level: Level::Derived,
    source: METHODS,
    doctypes: BOTH,
    scope: Scope::CrossFile,
    what: "`path` of a `vendored` method is relative and stays inside the workspace.",
    why: "A manifest that names a file elsewhere on the machine runs what it did not ship.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "install:\n  - { method: vendored, path: ../../../bin/sh }\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "install:\n  - { method: vendored, path: ./bin/forge }\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_EXTRACT_BIN_TRAVERSAL: Rule = Rule {
    slug: "install-extract-bin-traversal",
    title: "The file to extract lies outside the archive",
    level: Level::Derived,
    source: METHODS,
    doctypes: BOTH,
    what: "`extract_bin` is a relative path without `..`.",
    why: "An extractor that follows such a path reads or overwrites files outside the directory it unpacks into.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: download\n    url: https://downloads.gull.example/1.8.0/gull.zip\n    extract_bin: ../../usr/local/bin/gull\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "install:\n  - method: download\n    url: https://downloads.gull.example/1.8.0/gull.zip\n    extract_bin: gull-1.8.0/bin/gull\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_NPM_UNPINNED: Rule = Rule {
    slug: "install-npm-unpinned",
    title: "A package is fetched at each start without a version",
    severity: Severity::Info,
    level: Level::Derived,
    source: METHODS,
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "Where `bin` is `npx` (or `bunx`, `pnpx`), the package in `bin_args` names its version.",
    why: "The launcher takes the newest release at every start, whatever `version_check.range` says.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "bin: npx\nbin_args: [\"-y\", \"@gull/agent\"]\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "bin: npx\nbin_args: [\"-y\", \"@gull/agent@1.8.0\"]\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_OS_COVERAGE: Rule = Rule {
    slug: "install-os-coverage",
    title: "An operating system is promised that no method serves",
    severity: Severity::Warning,
    level: Level::Derived,
    source: METHODS,
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "For each system in `requires.os` at least one install method works there. A `download` counts for the system in its file name, or for all.",
    why: "On that system the host accepts the bundle and then cannot install it.",
    bad: Example::over(
        "gull",
        "AGENT-CLI.md",
        "requires:\n  os: [linux, windows]\ninstall:\n  - { method: brew, package: gull }\n",
    ),
    good: Example::over(
        "gull",
        "AGENT-CLI.md",
        "requires:\n  os: [linux, windows]\ninstall:\n  - { method: brew, package: gull }\n  - { method: scoop, package: gull }\n",
    ),
    ..Rule::BASE
};

pub static INSTALL_FEW_MANAGERS: Rule = Rule {
    slug: "install-few-managers",
    title: "Few package managers are covered",
    severity: Severity::Info,
    level: Level::May,
    source: Source {
        spec: "AIP-29",
        section: "Authoring with SKILL.md",
    },
    decides: &["A29-SKILL-01"],
    doctypes: &[Doctype::Cli],
    scope: Scope::CrossField,
    what: "A CLI.md lists at least three package managers and a `download`, unless the binary ships with the bundle.",
    why: "Each machine has other package managers; the download serves those that have none.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "install:\n  - { method: brew, package: forge }\n  - { method: npm, package: \"@forgehost/cli@3.4.1\" }\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "install:\n  - { method: brew, package: forge }\n  - { method: apt, package: forge }\n  - { method: npm, package: \"@forgehost/cli@3.4.1\" }\n  - method: download\n    url: https://downloads.forge.example/v3.4.1/forge.tar.gz\n    extract_bin: forge-3.4.1/forge\n    verify_sha256: 9c1185a5c5e9fc54612808977ee8f548b2258d31b0f3c8c3b5a1a7a7a0e6f1d2\n",
    ),
    ..Rule::BASE
};

pub static REQUIRES_OS_ENUM: Rule = Rule {
    slug: "requires-os-enum",
    words: Some(|ctx, v| outside_enum(ctx, v, &OS_ALIASES)),
    title: "An operating system under a name that the spec does not use",
    source: OPTIONAL,
    decides: &["A29-OPT-10"],
    doctypes: BOTH,
    fix: FixKind::Unsafe,
    what: "`requires.os` lists `darwin`, `linux` and `windows` only.",
    why: "Hosts compare the names letter by letter; with `macos` in the list no Mac is ever served.",
    bad: Example::over("gull", "AGENT-CLI.md", "requires:\n  os: [macos, linux]\n"),
    good: Example::over("gull", "AGENT-CLI.md", "requires:\n  os: [darwin, linux]\n"),
    ..Rule::BASE
};

pub static REQUIRES_ARCH_ENUM: Rule = Rule {
    slug: "requires-arch-enum",
    words: Some(|ctx, v| outside_enum(ctx, v, &ARCH_ALIASES)),
    title: "An architecture under a name that the spec does not use",
    source: OPTIONAL,
    decides: &["A29-OPT-11"],
    doctypes: BOTH,
    fix: FixKind::Unsafe,
    what: "`requires.arch` lists `x64`, `arm64`, `x86` and `arm` only.",
    why: "Hosts compare the names letter by letter; with `x86_64` in the list no such machine is ever served.",
    bad: Example::over("gull", "AGENT-CLI.md", "requires:\n  arch: [x86_64]\n"),
    good: Example::over("gull", "AGENT-CLI.md", "requires:\n  arch: [x64]\n"),
    note: Some(
        "C18: the prose lists x64 and arm64, the schema adds x86 and arm. We follow the schema here; `requires-arch-prose` mentions the other two.",
    ),
    ..Rule::BASE
};

pub static REQUIRES_ARCH_PROSE: Rule = Rule {
    slug: "requires-arch-prose",
    title: "An architecture that only the schema knows",
    severity: Severity::Info,
    level: Level::May,
    source: OPTIONAL,
    decides: &["A29-OPT-11"],
    doctypes: BOTH,
    what: "`requires.arch` keeps to `x64` and `arm64`, the two that the text of AIP-29 lists.",
    why: "A host written from the text refuses `x86` and `arm`, one written from the schema takes them.",
    bad: Example::over("gull", "AGENT-CLI.md", "requires:\n  arch: [x64, arm]\n"),
    good: Example::over("gull", "AGENT-CLI.md", "requires:\n  arch: [x64, arm64]\n"),
    note: Some(
        "C18: the prose lists x64 and arm64, the schema adds x86 and arm. Both are accepted; this only says that hosts may differ.",
    ),
    ..Rule::BASE
};
