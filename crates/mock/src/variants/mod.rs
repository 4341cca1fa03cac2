//! Conforming variants: agents that behave differently from the default mock.
//!
//! A variant conforms to its protocol as much as the default mock does. A check that reports a
//! failure for a variant has a bug.

pub mod aoi;
mod draft;
mod ids;
mod messages;
mod model;
mod process;
mod refusals;
mod serialization;
mod shapes;

use std::sync::LazyLock;

use crate::AgentKind;
use crate::mutants::Tamper;
pub use serialization::Serialization;

/// How a variant differs from the default mock.
pub struct AgentVariation {
    /// Protocol of the variant.
    pub kind: AgentKind,
    /// Scenario of the variant, unless another one is requested.
    pub scenario: &'static str,
    pub(super) tamper: Option<Tamper>,
    pub(super) serialization: Serialization,
}

/// Variant of a mock agent.
pub type AgentVariant = crate::model::Variant<AgentVariation>;

/// Variant that only uses another scenario.
fn with_scenario(
    name: &'static str,
    scenario: &'static str,
    description: &'static str,
) -> AgentVariant {
    let data = AgentVariation {
        kind: AgentKind::Acp,
        scenario,
        tamper: None,
        serialization: Serialization::PLAIN,
    };
    AgentVariant {
        name,
        description,
        data,
    }
}

/// Variant of the default scenario that changes its messages.
fn with_tamper(name: &'static str, description: &'static str, tamper: Tamper) -> AgentVariant {
    let mut variant = with_scenario(name, "default", description);
    variant.data.tamper = Some(tamper);
    variant
}

/// Variant of the default scenario that serializes its messages differently.
fn with_serialization(
    kind: AgentKind,
    name: &'static str,
    description: &'static str,
    serialization: Serialization,
) -> AgentVariant {
    let mut variant = with_scenario(name, "default", description);
    variant.data.kind = kind;
    variant.data.serialization = serialization;
    variant
}

impl AgentVariant {
    fn in_scenario(mut self, scenario: &'static str) -> AgentVariant {
        self.data.scenario = scenario;
        self
    }
    fn of_mcp(mut self) -> AgentVariant {
        self.data.kind = AgentKind::Mcp;
        self
    }
}

fn scenarios() -> Vec<AgentVariant> {
    vec![
        with_scenario("bare", "bare", "Has no optional capabilities."),
        with_scenario("rich", "rich", "Has all optional capabilities."),
        with_scenario(
            "locked",
            "auth",
            "Requires a login before a session can be opened.",
        ),
        with_scenario(
            "many-settings",
            "modes",
            "Has three modes and three options, and the agent also changes them.",
        ),
        with_scenario(
            "news",
            "updates",
            "Sends a title, token counts, a cost, a notice and a compaction in every turn.",
        ),
        with_scenario(
            "asks-twice",
            "permission-twice",
            "Asks for permission twice in a turn.",
        ),
        with_scenario(
            "asks-by-link",
            "elicitation-url",
            "Sends the user to two web pages in every turn.",
        ),
        with_scenario(
            "busy",
            "tools",
            "Makes three tool calls in every turn. One of them fails.",
        ),
        with_scenario(
            "planner",
            "plan",
            "Sends a plan and completes it in every turn.",
        ),
        with_scenario("failing", "error", "Every turn ends with an error."),
    ]
}

static ALL: LazyLock<Vec<AgentVariant>> = LazyLock::new(|| {
    let groups = [
        serialization::variants(),
        ids::variants(),
        shapes::variants(),
        messages::variants(),
        process::variants(),
        draft::variants(),
        refusals::variants(),
        model::variants(),
        scenarios(),
    ];
    groups.into_iter().flatten().collect()
});

/// All variants of all mock agents.
pub fn all() -> impl Iterator<Item = &'static AgentVariant> {
    ALL.iter()
}

/// Variants of one mock agent.
pub fn of(kind: AgentKind) -> impl Iterator<Item = &'static AgentVariant> {
    all().filter(move |variant| variant.kind == kind)
}
