//! The rules of `version_check`.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const BOTH: &[Doctype] = &[Doctype::Cli, Doctype::AgentCli];
const VERSION: Source = Source {
    spec: "AIP-29",
    section: "Version detection",
};

const fn gull(yaml: &'static str) -> Example {
    Example::over("gull", "AGENT-CLI.md", yaml)
}

pub static VC_REQUIRED: Rule = Rule {
    slug: "vc-required",
    words: Some(required),
    title: "The version check lacks a required field",
    source: VERSION,
    decides: &["A29-REQ-10", "A29-VER-01", "A45-CONF-02", "A45-FM-08"],
    doctypes: BOTH,
    what: "`version_check` has `cmd`, `parse` and `range`.",
    why: "A host must check the version before it offers the tool; without all three it cannot.",
    bad: gull("version_check:\n  cmd: gull version\n  range: ^1.8.0\n"),
    good: gull(
        "version_check:\n  cmd: gull version\n  parse: '(\\d+\\.\\d+\\.\\d+)'\n  range: ^1.8.0\n",
    ),
    ..Rule::BASE
};

pub static VC_PARSE_VALID_REGEX: Rule = Rule {
    slug: "vc-parse-valid-regex",
    title: "The version pattern is not a regular expression",
    source: VERSION,
    decides: &["A29-VER-03"],
    doctypes: BOTH,
    what: "`version_check.parse` is a valid ECMAScript regular expression, with or without the `u` flag.",
    why: "Hosts compile it as JavaScript does. Look-behind and back-references are fine there; `(?P<name>…)` and `(?i)` from other languages are not.",
    bad: gull(
        "version_check:\n  cmd: gull version\n  parse: '(?P<version>\\d+)'\n  range: ^1.8.0\n",
    ),
    good: gull(
        "version_check:\n  cmd: gull version\n  parse: '(?<version>\\d+\\.\\d+\\.\\d+)'\n  range: ^1.8.0\n",
    ),
    ..Rule::BASE
};

pub static VC_PARSE_CAPTURE_GROUP: Rule = Rule {
    slug: "vc-parse-capture-group",
    title: "The version pattern has no capture group",
    source: VERSION,
    decides: &["A29-VER-03"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    what: "`version_check.parse` has at least one capture group; named groups count, `(?:…)` does not.",
    why: "The first group is the version that the host compares with `range`. Without one every install fails the check.",
    bad: gull(
        "version_check:\n  cmd: gull version\n  parse: 'gull \\d+\\.\\d+\\.\\d+'\n  range: ^1.8.0\n",
    ),
    good: gull(
        "version_check:\n  cmd: gull version\n  parse: 'gull (\\d+\\.\\d+\\.\\d+)'\n  range: ^1.8.0\n",
    ),
    ..Rule::BASE
};

pub static VC_PARSE_DOUBLE_ESCAPED: Rule = Rule {
    slug: "vc-parse-double-escaped",
    title: "The version pattern has doubled backslashes",
    severity: Severity::Warning,
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    fix: FixKind::Safe,
    what: "Backslashes of `version_check.parse` are not doubled where a class such as `\\d` was meant.",
    why: "YAML keeps backslashes as they are in single quotes and plain text, so `'\\\\d'` looks for a backslash and a `d` and matches no version.",
    bad: gull(
        "version_check:\n  cmd: gull version\n  parse: 'gull v?(\\\\d+\\\\.\\\\d+\\\\.\\\\d+)'\n  range: ^1.8.0\n",
    ),
    good: gull(
        "version_check:\n  cmd: gull version\n  parse: \"gull v?(\\\\d+\\\\.\\\\d+\\\\.\\\\d+)\"\n  range: ^1.8.0\n",
    ),
    ..Rule::BASE
};

pub static VC_PARSE_REDOS: Rule = Rule {
    slug: "vc-parse-redos",
    title: "The version pattern can backtrack without end",
    severity: Severity::Warning,
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    what: "No repeated group of `version_check.parse` repeats something inside it without a fixed character between the rounds.",
    why: "On output that does not match, the number of ways to try doubles with every character, and the check hangs until its timeout.",
    bad: gull(
        "version_check:\n  cmd: gull version\n  parse: 'gull ((?:\\d+\\.?)+)$'\n  range: ^1.8.0\n",
    ),
    good: gull(
        "version_check:\n  cmd: gull version\n  parse: 'gull (\\d+(?:\\.\\d+)+)$'\n  range: ^1.8.0\n",
    ),
    ..Rule::BASE
};

pub static VC_RANGE_VALID: Rule = Rule {
    slug: "vc-range-valid",
    title: "The version range is not an npm range",
    source: VERSION,
    decides: &["A29-VER-05"],
    doctypes: BOTH,
    what: "`version_check.range` is a version range as npm reads it.",
    why: "A host that cannot read the range must refuse every installed version.",
    bad: gull(
        "version_check:\n  cmd: gull version\n  parse: '(\\S+)'\n  range: \">=1.8.0, <2.0.0\"\n",
    ),
    good: gull(
        "version_check:\n  cmd: gull version\n  parse: '(\\S+)'\n  range: \">=1.8.0 <2.0.0\"\n",
    ),
    ..Rule::BASE
};

pub static VC_RANGE_UNSATISFIABLE: Rule = Rule {
    slug: "vc-range-unsatisfiable",
    title: "No version can be in the range",
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    what: "Some version is in `version_check.range`.",
    why: "With bounds that exclude each other the tool can never become available, whatever is installed.",
    bad: gull("version_check:\n  cmd: gull version\n  parse: '(\\S+)'\n  range: \">2 <1\"\n"),
    good: gull("version_check:\n  cmd: gull version\n  parse: '(\\S+)'\n  range: \">=1 <2\"\n"),
    ..Rule::BASE
};

pub static VC_RANGE_UNBOUNDED: Rule = Rule {
    slug: "vc-range-unbounded",
    title: "The version range has no upper bound",
    severity: Severity::Info,
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    fix: FixKind::Suggest,
    what: "`version_check.range` ends somewhere.",
    why: "The next major version may rename flags and change output; a bound turns that into a clear error instead of a broken tool.",
    bad: gull("version_check:\n  cmd: gull version\n  parse: '(\\S+)'\n  range: \">=1.8.0\"\n"),
    good: gull("version_check:\n  cmd: gull version\n  parse: '(\\S+)'\n  range: \">=1.8.0 <2\"\n"),
    ..Rule::BASE
};

pub static VC_TIMEOUT_MIN: Rule = Rule {
    slug: "vc-timeout-min",
    words: Some(timeout_min),
    title: "The version check's timeout is below 100 ms",
    source: VERSION,
    decides: &["A29-VER-07"],
    doctypes: BOTH,
    fix: FixKind::Safe,
    what: "`version_check.timeout_ms` is 100 or more.",
    why: "The timeout is a hard limit, and many binaries need longer than that only to start.",
    bad: gull(
        "version_check:\n  cmd: gull version\n  parse: '(\\S+)'\n  range: ^1.8.0\n  timeout_ms: 50\n",
    ),
    good: gull(
        "version_check:\n  cmd: gull version\n  parse: '(\\S+)'\n  range: ^1.8.0\n  timeout_ms: 100\n",
    ),
    note: Some(
        "C25: the adapter guide also wants a connection within this timeout (5 s unless set), which a start through npx from cold cannot keep. The field is judged as the limit of the version check alone.",
    ),
    ..Rule::BASE
};

pub static VC_CMD_NOT_BIN: Rule = Rule {
    slug: "vc-cmd-not-bin",
    title: "The version command does not run the binary",
    severity: Severity::Warning,
    level: Level::May,
    source: VERSION,
    decides: &["A29-VER-01"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "The first word of `version_check.cmd` is the binary that `bin` names.",
    why: "The check is meant to learn the version of the installed binary; another program's answer says nothing about it.",
    bad: gull("version_check:\n  cmd: node --version\n  parse: 'v(\\S+)'\n  range: ^1.8.0\n"),
    good: gull("version_check:\n  cmd: gull --version\n  parse: 'v(\\S+)'\n  range: ^1.8.0\n"),
    note: Some(
        "C23: AIP-45 asks for the version of the binary, while real manifests start it through npx and probe something else. We follow the text and warn.",
    ),
    ..Rule::BASE
};

pub static VC_CMD_REGISTRY_PROBE: Rule = Rule {
    slug: "vc-cmd-registry-probe",
    title: "The version command asks a registry, not the machine",
    severity: Severity::Warning,
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "`version_check.cmd` does not read the version from a package registry or a web address.",
    why: "Such a check passes with nothing installed, and fails offline although everything is.",
    bad: gull(
        "version_check:\n  cmd: npm view gull-agent version\n  parse: '(\\S+)'\n  range: ^1.8.0\n",
    ),
    good: gull("version_check:\n  cmd: gull version\n  parse: '(\\S+)'\n  range: ^1.8.0\n"),
    note: Some(
        "C23: real manifests do this because they start through npx. It stands in place of vc-cmd-not-bin, never beside it.",
    ),
    ..Rule::BASE
};

pub static VC_CMD_SHELL_FEATURES: Rule = Rule {
    slug: "vc-cmd-shell-features",
    title: "The version command needs a shell",
    severity: Severity::Warning,
    level: Level::Derived,
    source: VERSION,
    doctypes: BOTH,
    what: "`version_check.cmd` is a plain command: no pipe, list, redirection, substitution or variable.",
    why: "AIP-29 rules shell features out for argv templates and does not promise a shell here; a host that runs the words directly fails.",
    bad: gull(
        "version_check:\n  cmd: gull version | head -1\n  parse: '(\\S+)'\n  range: ^1.8.0\n",
    ),
    good: gull("version_check:\n  cmd: gull version\n  parse: '(\\S+)'\n  range: ^1.8.0\n"),
    ..Rule::BASE
};
