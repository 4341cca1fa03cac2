//! The records of the output and example rules.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const OUTPUT: Source = Source {
    spec: "AIP-29",
    section: "Output conventions",
};
const EXAMPLES: Source = Source {
    spec: "AIP-29",
    section: "Optional fields",
};
const CLI: &[Doctype] = &[Doctype::Cli];

pub static EXIT_CODE_KEY: Rule = Rule {
    slug: "out-exit-code-key",
    words: Some(bad_key),
    title: "A key of `exit_codes` is not a number",
    source: OUTPUT,
    decides: &["A29-OUT-04"],
    doctypes: CLI,
    fix: FixKind::Safe,
    what: "Every key of `output.exit_codes` is an exit code in digits.",
    why: "The host looks up the number with which the process ended; any other key is never found.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "output:\n  exit_codes:\n    0: ok\n    exit_3: rate_limited\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "output:\n  exit_codes:\n    0: ok\n    3: rate_limited\n",
    ),
    note: Some(
        "C20: YAML reads `3:` as an integer and the published schema wants string keys; integer keys are read as strings.",
    ),
    ..Rule::BASE
};

pub static EXIT_CODE_VALUE: Rule = Rule {
    slug: "out-exit-code-value",
    words: Some(bad_value),
    title: "The meaning of an exit code is not a snake_case word",
    source: OUTPUT,
    decides: &["A29-OUT-04"],
    doctypes: CLI,
    fix: FixKind::Safe,
    what: "Every value of `output.exit_codes` begins with a small letter and has small letters, digits and underscores only, two or more.",
    why: "The word becomes the error code that callers compare; another spelling is another code.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "output:\n  exit_codes:\n    3: Rate-Limited\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "output:\n  exit_codes:\n    3: rate_limited\n",
    ),
    ..Rule::BASE
};

pub static RESERVED_CODE: Rule = Rule {
    slug: "out-reserved-code",
    title: "A reserved exit code has another meaning",
    severity: Severity::Warning,
    level: Level::May,
    source: OUTPUT,
    decides: &[
        "A29-OUT-05",
        "A29-OUT-06",
        "A29-OUT-07",
        "A29-OUT-08",
        "A29-OUT-09",
        "A29-OUT-10",
    ],
    doctypes: CLI,
    what: "0 is `ok`, 1 `error`, 2 `usage_error`, 4 `auth_required`, 124 `timeout` and 137 `killed`.",
    why: "Hosts act on the reserved codes by themselves: a 4 sends the user to the login whatever the manifest calls it.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "output:\n  exit_codes:\n    0: ok\n    4: rate_limited\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "output:\n  exit_codes:\n    0: ok\n    3: rate_limited\n    4: auth_required\n",
    ),
    note: Some(
        "C19: an example of AIP-29 takes 1, a reserved `error`, as the sign of an expired login. Binaries are as they are, so this is a warning.",
    ),
    ..Rule::BASE
};

pub static CODE_RANGE: Rule = Rule {
    slug: "out-code-range",
    title: "An exit code is above 255",
    severity: Severity::Warning,
    level: Level::Derived,
    source: OUTPUT,
    doctypes: CLI,
    what: "Keys of `output.exit_codes` are at most 255, unless the tool is for Windows only.",
    why: "Unix systems keep eight bits of an exit status, so a larger number is never seen.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "output:\n  exit_codes:\n    0: ok\n    256: quota_spent\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "output:\n  exit_codes:\n    0: ok\n    255: quota_spent\n",
    ),
    ..Rule::BASE
};

pub static JSON_ARGS_NO_FLAG: Rule = Rule {
    slug: "out-json-args-no-flag",
    title: "`json_flag_args` stands without `json_flag`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: OUTPUT,
    decides: &["A29-OUT-03"],
    doctypes: CLI,
    scope: Scope::CrossField,
    what: "Where `output.json_flag_args` has values, `output.json_flag` names the flag that they belong to.",
    why: "The values follow the flag; without it the host never adds them and the output stays text.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "output:\n  json_flag_args: [\"number,title\"]\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "output:\n  json_flag: --json\n  json_flag_args: [\"number,title\"]\n",
    ),
    ..Rule::BASE
};

pub static EXAMPLE_FIELDS: Rule = Rule {
    slug: "ex29-fields",
    words: Some(bad_example),
    title: "An example lacks its goal or its command",
    source: EXAMPLES,
    decides: &["A29-OPT-13"],
    doctypes: CLI,
    what: "Each entry of `examples` has `goal` and `cmd`, may have `note`, and nothing else.",
    why: "Agents search examples by their goal and copy the command; one without the other is of no use to them.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "examples:\n  - goal: see what waits for review\n    command: forge merge list\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "examples:\n  - goal: see what waits for review\n    cmd: forge merge list\n",
    ),
    ..Rule::BASE
};

pub static EXAMPLE_NOT_BIN: Rule = Rule {
    slug: "ex29-cmd-not-bin",
    title: "An example runs another program than `bin`",
    severity: Severity::Warning,
    level: Level::Derived,
    source: EXAMPLES,
    doctypes: CLI,
    scope: Scope::CrossField,
    what: "The command of an example begins with the binary that the manifest is about.",
    why: "An agent that copies the example calls a program that this sandbox and this login do not cover.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "examples:\n  - goal: see what waits for review\n    cmd: frg merge list\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "examples:\n  - goal: see what waits for review\n    cmd: FORGE_HOST=forge.example forge merge list\n",
    ),
    ..Rule::BASE
};

pub static EXAMPLE_NOT_IN_TREE: Rule = Rule {
    slug: "ex29-cmd-not-in-tree",
    title: "An example uses a subcommand that `commands` does not have",
    severity: Severity::Info,
    level: Level::Derived,
    source: EXAMPLES,
    doctypes: CLI,
    scope: Scope::CrossField,
    what: "The subcommand of an example is a path of `commands`.",
    why: "Only what `commands` lists has a TOOL.md to call; the example promises something that agents cannot do.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "examples:\n  - goal: publish a release\n    cmd: forge release create v1.0.0\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "examples:\n  - goal: see what waits for review\n    cmd: forge merge list --state open\n",
    ),
    ..Rule::BASE
};
