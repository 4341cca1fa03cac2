//! The mock agents in this directory, embedded: bundles, scenarios and model scripts.

#![deny(missing_docs)]

/// Directory with a manifest.
#[derive(Debug)]
pub struct Bundle {
    /// Name of the directory.
    pub name: &'static str,
    /// For each file: path relative to the directory, content, and whether it is executable.
    pub files: &'static [(&'static str, &'static [u8], bool)],
}

macro_rules! bundle {
    ($name:literal: $($path:literal),* $(,)?) => {
        Bundle {
            name: $name,
            files: &[$((
                $path,
                include_bytes!(concat!($name, "/", $path)),
                false,
            )),*],
        }
    };
}

static BUNDLES: &[Bundle] = &[
    bundle!("mock-acp": "AGENT-CLI.md", "ACP.md", "OPERATOR.md", "SANDBOX.md", "scenario.yaml"),
    bundle!("mock-mcp": "AGENT-CLI.md", "SANDBOX.md", "scenario.yaml"),
    bundle!("mock-repl": "AGENT-CLI.md", "SANDBOX.md", "scenario.yaml"),
    bundle!("mock-npm": "AGENT-CLI.md", "SANDBOX.md", "adapter/package.json", "adapter/index.js"),
];

/// Bundles of all mock agents.
pub fn bundles() -> &'static [Bundle] {
    BUNDLES
}

/// Scenario that `--scenario NAME` finds by name.
#[derive(Clone, Copy, Debug)]
pub struct Embedded {
    /// Name without the `.yaml` extension.
    pub name: &'static str,
    /// Text of the YAML file.
    pub text: &'static str,
}

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(Embedded {
            name: $name,
            text: include_str!(concat!("scenarios/", $name, ".yaml")),
        }),*]
    };
}

static SCENARIOS: &[Embedded] = embedded![
    "answer-twice",
    "auth",
    "banner",
    "bare",
    "crash",
    "daemon",
    "daemon-holding",
    "elicitation",
    "elicitation-url",
    "error",
    "exit-at-once",
    "flood",
    "flood-bytes",
    "fs",
    "garbage",
    "half-line",
    "half-line-hang",
    "hang",
    "huge-line",
    "ignore-eof",
    "ignore-sigterm",
    "invalid-utf8",
    "killed",
    "model",
    "modes",
    "never-starts",
    "permission",
    "permission-twice",
    "plan",
    "resume",
    "rich",
    "segfault",
    "slow",
    "slow-start",
    "stderr-flood",
    "stop-reasons",
    "terminal",
    "thought",
    "tools",
    "updates",
];

/// All named scenarios except `default`, which is different for each mock agent.
pub fn embedded() -> &'static [Embedded] {
    SCENARIOS
}

/// Default scenario of `agentproto mock acp`.
pub const ACP_SCENARIO: &str = include_str!("mock-acp/scenario.yaml");
/// Default scenario of `agentproto mock mcp`.
pub const MCP_SCENARIO: &str = include_str!("mock-mcp/scenario.yaml");
/// Default scenario of `agentproto mock repl`.
pub const REPL_SCENARIO: &str = include_str!("mock-repl/scenario.yaml");

/// Script of the mock model for certification.
pub const CERTIFY_MODEL: &str = include_str!("model-scripts/certify.yaml");

/// Shell script that wraps the mock agent, for the self-test's bundles with defects.
pub const WRAPPER: &str = include_str!("shell/wrapper.sh");
/// Executable adapter, for the self-test's bundles with defects.
pub const ADAPTER: &str = include_str!("shell/adapter.sh");

/// Probe file of the mock AOI tool.
pub const AOI_PROBE: &str = include_str!("mock-aoi/probe.yaml");
