//! The scenarios inside the binary.

use crate::mock::Kind;

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
            text: include_str!(concat!("../../../mock-agents/scenarios/", $name, ".yaml")),
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

/// What a mock does when nothing else is asked for: the scenario of its bundle.
pub fn default_of(kind: Kind) -> Embedded {
    Embedded {
        name: "default",
        text: match kind {
            Kind::Acp | Kind::AcpV2 => include_str!("../../../mock-agents/mock-acp/scenario.yaml"),
            Kind::Mcp => include_str!("../../../mock-agents/mock-mcp/scenario.yaml"),
            Kind::Repl => include_str!("../../../mock-agents/mock-repl/scenario.yaml"),
        },
    }
}
