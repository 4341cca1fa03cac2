//! The records of the rules about subcommands, their tools and intents.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const SUBCOMMANDS: Source = Source {
    spec: "AIP-29",
    section: "Subcommands",
};
const ARGS: Source = Source {
    spec: "AIP-29",
    section: "Args template",
};
const CLI: &[Doctype] = &[Doctype::Cli];
const TOOL: &[Doctype] = &[Doctype::Tool];

const TOOL_FILE: &str = "tools/merge-list/TOOL.md";

pub static TREE_LEAF_TYPE: Rule = Rule {
    slug: "cmd-tree-leaf-type",
    words: Some(leaf_type),
    title: "A node of `commands` is neither a path nor a group",
    source: SUBCOMMANDS,
    decides: &["A29-CMD-01", "A29-REQ-12"],
    doctypes: CLI,
    what: "Each value in the `commands` tree is the path of a TOOL.md or a mapping of further subcommands.",
    why: "The tree is the index of tools; what is neither leads nowhere, and the subcommand does not exist.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  whoami: [./tools/whoami/TOOL.md]\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  whoami: ./tools/whoami/TOOL.md\n",
    ),
    ..Rule::BASE
};

pub static EMPTY: Rule = Rule {
    slug: "cmd-empty",
    title: "`commands`, or a group in it, is empty",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SUBCOMMANDS,
    doctypes: CLI,
    what: "`commands` and each group in it has at least one entry.",
    why: "A bundle without subcommands passes the schema but offers agents nothing to call.",
    bad: Example::over("forge", "CLI.md", "commands: {}\n"),
    good: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  whoami: ./tools/whoami/TOOL.md\n",
    ),
    ..Rule::BASE
};

pub static REF_MISSING: Rule = Rule {
    slug: "cmd-ref-missing",
    title: "The TOOL.md of a subcommand does not exist",
    source: SUBCOMMANDS,
    decides: &["A29-CMD-01", "A29-SKILL-05"],
    doctypes: CLI,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    what: "Every leaf of `commands` names a file that exists.",
    why: "Without its TOOL.md a subcommand has no inputs and no arguments, and no host can register it.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  whoami: ./tools/who-am-i/TOOL.md\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  whoami: ./tools/whoami/TOOL.md\n",
    ),
    ..Rule::BASE
};

pub static REF_NOT_TOOL: Rule = Rule {
    slug: "cmd-ref-not-tool",
    title: "A leaf of `commands` is not named TOOL.md",
    severity: Severity::Warning,
    level: Level::May,
    source: SUBCOMMANDS,
    decides: &["A29-CMD-01"],
    doctypes: CLI,
    scope: Scope::CrossFile,
    what: "The file that a leaf of `commands` names is called TOOL.md.",
    why: "Hosts and tools that look for TOOL.md by name pass over a contract under another name.",
    bad: Example::over("forge", "CLI.md", "commands:\n  whoami: ./tools/whoami\n"),
    good: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  whoami: ./tools/whoami/TOOL.md\n",
    ),
    ..Rule::BASE
};

pub static PATH_TOKEN: Rule = Rule {
    slug: "cmd-path-token",
    title: "A key of `commands` is not one word of a command line",
    level: Level::Derived,
    source: SUBCOMMANDS,
    decides: &["A29-CMD-02"],
    doctypes: CLI,
    what: "Keys of the `commands` tree are single words without spaces or shell characters.",
    why: "The keys from root to leaf are the arguments after the binary; `merge open` as one key is one argument that no binary knows.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  merge open: ./tools/merge-open/TOOL.md\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  merge:\n    open: ./tools/merge-open/TOOL.md\n",
    ),
    ..Rule::BASE
};

pub static DUPLICATE_REF: Rule = Rule {
    slug: "cmd-duplicate-ref",
    title: "Two subcommands name the same TOOL.md",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SUBCOMMANDS,
    decides: &["A29-SKILL-05"],
    doctypes: CLI,
    scope: Scope::CrossField,
    what: "Each leaf of `commands` has a TOOL.md of its own.",
    why: "A TOOL.md has one argument template, which can begin with one of the two paths only; the other subcommand runs the wrong thing.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  whoami: ./tools/whoami/TOOL.md\n  account: ./tools/whoami/TOOL.md\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  whoami: ./tools/whoami/TOOL.md\n",
    ),
    ..Rule::BASE
};

pub static ORPHAN_TOOL: Rule = Rule {
    slug: "cmd-orphan-tool",
    title: "A TOOL.md of the bundle is not in `commands`",
    severity: Severity::Info,
    level: Level::Derived,
    source: SUBCOMMANDS,
    decides: &["A29-SKILL-05"],
    doctypes: CLI,
    scope: Scope::CrossFile,
    fix: FixKind::Safe,
    what: "Every `tools/*/TOOL.md` beside a CLI.md is a leaf of its `commands`.",
    why: "Hosts register what `commands` lists; the tool is there and nobody can call it.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  merge:\n    open: ./tools/merge-open/TOOL.md\n    list: ./tools/merge-list/TOOL.md\n  issue:\n    file: ./tools/issue-file/TOOL.md\n  pipeline:\n    run:\n      logs: ./tools/pipeline-run-logs/TOOL.md\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "commands:\n  merge:\n    open: ./tools/merge-open/TOOL.md\n    list: ./tools/merge-list/TOOL.md\n  issue:\n    file: ./tools/issue-file/TOOL.md\n  pipeline:\n    run:\n      logs: ./tools/pipeline-run-logs/TOOL.md\n  whoami: ./tools/whoami/TOOL.md\n",
    ),
    ..Rule::BASE
};

pub static BACKREF: Rule = Rule {
    slug: "tool-backref",
    title: "`runner.cli` does not lead back to the CLI.md that lists the tool",
    severity: Severity::Warning,
    level: Level::May,
    source: ARGS,
    decides: &["A29-CMD-05"],
    doctypes: TOOL,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    what: "The CLI.md that `runner.cli` names has this TOOL.md among its `commands`.",
    why: "Hosts take binary, login and sandbox from that CLI.md; if it does not know the tool, the two describe different commands.",
    bad: Example::file(
        "forge",
        "extras/spare/TOOL.md",
        "---\nname: Spare\nid: spare\ndescription: Does a thing that no subcommand offers.\nversion: 1.0.0\ninputs:\n  type: object\noutputs:\n  type: object\nrunner:\n  cli: ../../CLI.md\n---\n",
    ),
    good: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [merge, list]\n",
    ),
    note: Some(
        "C1: AIP-29 puts `runner.cli` into TOOL.md, the closed schema of AIP-14 has no `runner`. In a tool that belongs to a CLI bundle we follow AIP-29.",
    ),
    ..Rule::BASE
};

pub static ARGV_PREFIX: Rule = Rule {
    slug: "tool-argv-prefix",
    title: "`runner.argv` does not begin with the subcommand",
    level: Level::Derived,
    source: SUBCOMMANDS,
    decides: &["A29-CMD-02", "A29-CMD-04"],
    doctypes: TOOL,
    scope: Scope::CrossFile,
    fix: FixKind::Safe,
    what: "`runner.argv` begins with the keys that lead to this tool in the `commands` of its CLI.md.",
    why: "The template is the whole command line after the binary; without the subcommand another one runs, or none.",
    bad: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [list, --state, open]\n",
    ),
    good: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [merge, list, --state, open]\n",
    ),
    ..Rule::BASE
};

pub static ARGV_SHELL: Rule = Rule {
    slug: "tool-argv-shell",
    title: "`runner.argv` uses shell syntax",
    source: ARGS,
    decides: &["A29-CMD-09", "A29-CMD-10"],
    doctypes: TOOL,
    what: "Items of `runner.argv` have no `&&`, pipes, `;`, redirections, backticks or `$( )`. Values of options such as `--jq` or `--query` may use these characters in their own language.",
    why: "Arguments are handed to the binary without a shell: at best the text arrives as it stands, at worst a host that does use a shell runs a second command.",
    bad: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [merge, list, \"|\", head]\n",
    ),
    good: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [merge, list, --limit, \"${input.limit | default(20)}\"]\n",
    ),
    ..Rule::BASE
};

pub static ARGV_UNKNOWN_INPUT: Rule = Rule {
    slug: "tool-argv-unknown-input",
    title: "`runner.argv` takes an input that the tool does not have",
    level: Level::Derived,
    source: ARGS,
    decides: &["A29-CMD-06"],
    doctypes: TOOL,
    scope: Scope::CrossField,
    what: "Every `${input.NAME}` in `runner.argv` is a property of `inputs`, and no other name stands before the dot.",
    why: "Templates are filled from the validated input; a name that is not there is filled with nothing or stays as text.",
    bad: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [merge, list, --state, \"${input.status}\"]\n",
    ),
    good: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [merge, list, --state, \"${input.state}\"]\n",
    ),
    ..Rule::BASE
};

pub static ARGV_UNKNOWN_FILTER: Rule = Rule {
    slug: "tool-argv-unknown-filter",
    title: "`runner.argv` uses a filter that hosts do not know",
    severity: Severity::Warning,
    level: Level::May,
    source: ARGS,
    decides: &["A29-CMD-07"],
    doctypes: TOOL,
    what: "Filters in templates are `default`, `optional`, `flag` or `json`.",
    why: "AIP-29 shows `default`, the reference implementation knows the other three; it lets an unknown filter pass in silence, and the value goes through unchanged.",
    bad: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [merge, list, --state, \"${input.state | defualt('open')}\"]\n",
    ),
    good: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [merge, list, --state, \"${input.state | default('open')}\"]\n",
    ),
    ..Rule::BASE
};

pub static ARGV_SECRET: Rule = Rule {
    slug: "tool-argv-secret",
    title: "A secret is put on the command line",
    source: Source {
        spec: "AIP-45",
        section: "Auth",
    },
    decides: &["A45-AUTH-04"],
    doctypes: TOOL,
    what: "No item of `runner.argv` takes a value from `secrets`, or from an environment variable that holds one.",
    why: "Arguments are visible to every process of the machine and end up in logs; secrets go to the child by environment.",
    bad: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [merge, list, --token, \"${secrets.forge-token}\"]\n",
    ),
    good: Example::over(
        "forge",
        TOOL_FILE,
        "runner:\n  cli: ../../CLI.md\n  argv: [merge, list]\n",
    ),
    ..Rule::BASE
};

pub static SANDBOX_WIDENS: Rule = Rule {
    slug: "tool-sandbox-widens",
    title: "A tool's sandbox grants more than the bundle's",
    source: Source {
        spec: "AIP-29",
        section: "Inheritance to subcommand tools",
    },
    decides: &["A29-INHERIT-02", "A29-INHERIT-03", "A29-INHERIT-04"],
    doctypes: TOOL,
    scope: Scope::CrossFile,
    what: "What a TOOL.md grants in `sandbox` is granted by the CLI.md already: hosts, inbound URLs, paths, programs, variables and the terminal. What the CLI.md denies stays denied.",
    why: "The bundle's sandbox is what people review; hosts must refuse a tool that goes beyond it.",
    bad: Example::over(
        "forge",
        TOOL_FILE,
        "sandbox:\n  network:\n    egress: [api.forge.example, telemetry.forge.example]\n",
    ),
    good: Example::over(
        "forge",
        TOOL_FILE,
        "sandbox:\n  network:\n    egress: [api.forge.example]\n  fs:\n    write: []\n",
    ),
    note: Some(
        "C1: AIP-29 lets a TOOL.md narrow the sandbox, the closed schema of AIP-14 has no such block. In a tool that belongs to a CLI bundle we follow AIP-29. A list that the tool leaves out is inherited.",
    ),
    ..Rule::BASE
};

pub static INTENTS_VS_ACTIONS: Rule = Rule {
    slug: "intents-vs-actions",
    title: "The list of intents stands under `intents`",
    severity: Severity::Warning,
    level: Level::May,
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-08"],
    doctypes: CLI,
    fix: FixKind::Safe,
    what: "The list of shipped INTENT.md files stands under `actions`, the name in the published schema.",
    why: "The published schema is closed and has no `intents`: hosts that validate by it refuse the whole manifest.",
    bad: Example::file(
        "forge",
        "CLI.md",
        "---\nname: Forge CLI\nid: forge\nbin: forge\ncommands:\n  whoami: ./tools/whoami/TOOL.md\nintents:\n  - ref: ./intents/open-merge/INTENT.md\n---\n",
    ),
    good: Example::file(
        "forge",
        "CLI.md",
        "---\nname: Forge CLI\nid: forge\nbin: forge\ncommands:\n  whoami: ./tools/whoami/TOOL.md\nactions:\n  - ref: ./intents/open-merge/INTENT.md\n---\n",
    ),
    note: Some(
        "C2: prose and examples of AIP-29 say `intents`, its JSON Schema knows `actions` only. Both are read; `intents` is a warning in every profile. Renaming counts as safe, for the schema is what hosts validate by; a host that follows the prose alone would no longer see the list.",
    ),
    ..Rule::BASE
};

pub static INTENT_REF_MISSING: Rule = Rule {
    slug: "intent-ref-missing",
    title: "An INTENT.md that the bundle lists does not exist",
    source: Source {
        spec: "AIP-29",
        section: "Optional fields",
    },
    decides: &["A29-OPT-08", "A29-SKILL-06", "A29-COMPAT-05"],
    doctypes: CLI,
    scope: Scope::CrossFile,
    what: "Every `ref` under `actions` (or `intents`) names a file that exists.",
    why: "The shortcut shows up in a catalogue and cannot be opened.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "actions:\n  - ref: ./intents/open-merge-request/INTENT.md\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "actions:\n  - ref: ./intents/open-merge/INTENT.md\n",
    ),
    note: Some("C2: both spellings of the list, `intents` and `actions`, are followed."),
    ..Rule::BASE
};
