//! The records of the runner rules.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

/// Where a runner block can stand.
const HOLDERS: &[Doctype] = &[
    Doctype::Cli,
    Doctype::AgentCli,
    Doctype::Runner,
    Doctype::Tool,
];

pub static SCHEMA: Rule = Rule {
    slug: "runner-schema",
    words: Some(outside_schema),
    title: "The runner block does not fit AIP-17",
    source: Source {
        spec: "AIP-17",
        section: "The runner block",
    },
    decides: &["A29-OPT-05", "A45-FM-22"],
    doctypes: HOLDERS,
    scope: Scope::CrossFile,
    what: "A runner, inline or in the RUNNER.md that is named, has `engine`, `image`, `needs` and `limits` of the types that AIP-17 gives them, and nothing else.",
    why: "Hosts build the process boundary from this block; a field that they do not know bounds nothing.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "runner:\n  engine: subprocess\n  limits:\n    timeout_ms: 0\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "runner:\n  engine: subprocess\n  limits:\n    timeout_ms: 60000\n",
    ),
    note: Some(
        "C1: in the TOOL.md of a CLI bundle `cli` and `argv` may stand beside the AIP-17 fields. AIP-17's prose wants validators to take the wrappers `inline`, `ref` and `file` too, which its JSON Schema does not know: we take them, one at a time. Its prose lets hosts add fields to `limits`, its schema does not: an unknown limit is a warning. A `runner` key around the fields of a RUNNER.md is read through.",
    ),
    ..Rule::BASE
};

pub static ENGINE_ENUM: Rule = Rule {
    slug: "runner-engine-enum",
    words: Some(unknown_engine),
    title: "`engine` is not one that AIP-17 knows",
    source: Source {
        spec: "AIP-17",
        section: "runner.engine",
    },
    decides: &["A29-OPT-05", "A29-COMPAT-04"],
    doctypes: HOLDERS,
    fix: FixKind::Suggest,
    what: "`engine` is `subprocess`, `sandbox` or `in-process`.",
    why: "A host cannot isolate by a word that it does not know; it has to refuse the bundle.",
    bad: Example::over("forge", "CLI.md", "runner:\n  engine: docker\n"),
    good: Example::over(
        "forge",
        "CLI.md",
        "runner:\n  engine: sandbox\n  image: forge-toolbox\n",
    ),
    note: Some(
        "C4: the prose of AIP-29 writes `engine: \"docker\"`; AIP-17, which owns the block, has a closed list without it. We follow AIP-17: a container is `engine: sandbox` with an `image`.",
    ),
    ..Rule::BASE
};

pub static IMAGE_ENGINE: Rule = Rule {
    slug: "runner-image-engine",
    title: "An image is named for an engine that has none",
    severity: Severity::Warning,
    level: Level::May,
    source: Source {
        spec: "AIP-17",
        section: "runner.image",
    },
    doctypes: HOLDERS,
    scope: Scope::CrossField,
    what: "`image` stands beside `engine: sandbox` only.",
    why: "Other engines run on the host and drop the image, so the command runs without what the image was chosen for.",
    bad: Example::over(
        "forge",
        "CLI.md",
        "runner:\n  engine: subprocess\n  image: forge-toolbox\n",
    ),
    good: Example::over(
        "forge",
        "CLI.md",
        "runner:\n  engine: sandbox\n  image: forge-toolbox\n",
    ),
    ..Rule::BASE
};

pub static IN_PROCESS_UNTRUSTED: Rule = Rule {
    slug: "runner-in-process-untrusted",
    title: "`in-process` is asked for by a manifest that hosts do not trust",
    severity: Severity::Warning,
    source: Source {
        spec: "AIP-17",
        section: "runner.engine",
    },
    doctypes: HOLDERS,
    scope: Scope::CrossField,
    what: "A bundle does not ask for `engine: in-process`.",
    why: "The engine is for code that ships with the host; from a bundle every host must run it as `subprocess` instead, and log that it did.",
    bad: Example::over("forge", "CLI.md", "runner:\n  engine: in-process\n"),
    good: Example::over("forge", "CLI.md", "runner:\n  engine: subprocess\n"),
    ..Rule::BASE
};
