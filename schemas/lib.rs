//! Embeds the JSON Schemas of this directory. It is a separate crate, so that the linter and the
//! command line share one copy, and so that packaged crates contain the files.

#![deny(missing_docs)]

/// `$id` and text of every manifest schema.
pub const MANIFESTS: &[(&str, &str)] = &[
    (
        "https://agentproto.sh/docs/aip-29/CLI.schema.json",
        include_str!("CLI.schema.json"),
    ),
    (
        "https://agentproto.sh/docs/aip-45/AGENT-CLI.schema.json",
        include_str!("AGENT-CLI.schema.json"),
    ),
    (
        "https://agentproto.sh/docs/aip-44/ACP.schema.json",
        include_str!("ACP.schema.json"),
    ),
    (
        "https://agentproto.sh/schemas/aip-36/SANDBOX.schema.json",
        include_str!("SANDBOX.schema.json"),
    ),
    (
        "https://agentproto.sh/schemas/aip-19/SECRETS.schema.json",
        include_str!("SECRETS.schema.json"),
    ),
    (
        "https://agentproto.sh/schemas/aip-17/RUNNER.schema.json",
        include_str!("RUNNER.schema.json"),
    ),
    (
        "https://agentproto.sh/docs/aip-14/TOOL.schema.json",
        include_str!("TOOL.schema.json"),
    ),
    (
        "https://agentproto.sh/schemas/aip-16/IO.schema.json",
        include_str!("IO.schema.json"),
    ),
    (
        "https://agentproto.sh/schemas/aip-9/OPERATOR.schema.json",
        include_str!("OPERATOR.schema.json"),
    ),
];

/// Schema of every line of machine mode (`--output jsonl`).
pub const EVENTS: &str = include_str!("events.schema.json");

/// Schema of the events that AOI-CLI requires of any tool.
pub const AOI_FRAMEWORK: &str = include_str!("aoi-framework.schema.json");

/// Name and text of the schemas for this project's own files and reports.
pub const OWN: &[(&str, &str)] = &[
    ("events", EVENTS),
    ("lint-report", include_str!("lint-report.schema.json")),
    ("call-result", include_str!("call-result.schema.json")),
    ("certify-report", include_str!("certify-report.schema.json")),
    ("aoi-probe", include_str!("aoi-probe.schema.json")),
    ("aoi-report", include_str!("aoi-report.schema.json")),
    ("selftest", include_str!("selftest.schema.json")),
    ("config", include_str!("config.schema.json")),
    ("baseline", include_str!("baseline.schema.json")),
    ("scenario", include_str!("scenario.schema.json")),
    ("model-script", include_str!("model-script.schema.json")),
    ("suite", include_str!("suite.schema.json")),
    ("prompts", include_str!("prompts.schema.json")),
    ("recipe", include_str!("recipe.schema.json")),
    ("transcript", include_str!("transcript.schema.json")),
];
