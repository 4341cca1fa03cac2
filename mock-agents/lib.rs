//! The mock agents of this directory, embedded: bundles, scenarios, model scripts.

/// A directory with a manifest: path, content and whether it is a program, per file.
#[derive(Debug)]
pub struct Bundle {
    pub name: &'static str,
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

/// Every bundled agent.
pub fn bundles() -> &'static [Bundle] {
    BUNDLES
}

/// A scenario that is known by name.
#[derive(Clone, Copy, Debug)]
pub struct Embedded {
    pub name: &'static str,
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

/// Every named scenario but `default`, which each mock has for itself.
pub fn embedded() -> &'static [Embedded] {
    SCENARIOS
}

/// Text of the file `scenario.yaml` of a bundle.
pub const ACP_SCENARIO: &str = include_str!("mock-acp/scenario.yaml");
pub const MCP_SCENARIO: &str = include_str!("mock-mcp/scenario.yaml");
pub const REPL_SCENARIO: &str = include_str!("mock-repl/scenario.yaml");

/// The mock model's script for certification.
pub const CERTIFY_MODEL: &str = include_str!("model-scripts/certify.yaml");

/// Programs that the self-test puts into broken bundles.
pub const WRAPPER: &str = include_str!("shell/wrapper.sh");
pub const ADAPTER: &str = include_str!("shell/adapter.sh");

/// Probe file of the mock AOI tool.
pub const AOI_PROBE: &str = include_str!("mock-aoi/probe.yaml");
