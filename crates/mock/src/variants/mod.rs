//! Conforming variants: agents that behave differently from the default mock.
//!
//! A variant conforms to its protocol as much as the default mock does. A check that reports a
//! failure for a variant has a bug.

pub mod aoi;
mod hand;
mod ids;
mod manners;
mod shapes;
mod talk;

use std::sync::LazyLock;

use crate::Kind;
use crate::mutants::Tamper;
pub use hand::Hand;

/// How a variant differs from the default mock.
pub struct Look {
    /// Protocol of the variant.
    pub kind: Kind,
    /// Scenario of the variant, unless another one is requested.
    pub scenario: &'static str,
    pub(super) tamper: Option<Tamper>,
    pub(super) hand: Hand,
}

pub type Variant = crate::model::Variant<Look>;

/// Variant that only uses another scenario.
fn plays(name: &'static str, scenario: &'static str, what: &'static str) -> Variant {
    let made = Look {
        kind: Kind::Acp,
        scenario,
        tamper: None,
        hand: Hand::PLAIN,
    };
    Variant { name, what, made }
}

/// Variant of the default scenario that changes its messages.
fn looks(name: &'static str, what: &'static str, tamper: Tamper) -> Variant {
    let mut variant = plays(name, "default", what);
    variant.made.tamper = Some(tamper);
    variant
}

/// Variant of the default scenario that serializes its messages differently.
fn writes(kind: Kind, name: &'static str, what: &'static str, hand: Hand) -> Variant {
    let mut variant = plays(name, "default", what);
    variant.made.kind = kind;
    variant.made.hand = hand;
    variant
}

impl Variant {
    fn in_scenario(mut self, scenario: &'static str) -> Variant {
        self.made.scenario = scenario;
        self
    }
    fn of_mcp(mut self) -> Variant {
        self.made.kind = Kind::Mcp;
        self
    }
}

fn scenarios() -> Vec<Variant> {
    vec![
        plays("bare", "bare", "Has no optional capabilities."),
        plays("rich", "rich", "Has all optional capabilities."),
        plays(
            "locked",
            "auth",
            "Requires a login before a session can be opened.",
        ),
        plays(
            "many-settings",
            "modes",
            "Has three modes and three options, and the agent also changes them.",
        ),
        plays(
            "news",
            "updates",
            "Sends a title, token counts, a cost, a notice and a compaction in every turn.",
        ),
        plays(
            "asks-twice",
            "permission-twice",
            "Asks for permission twice in a turn.",
        ),
        plays(
            "asks-by-link",
            "elicitation-url",
            "Sends the user to two web pages in every turn.",
        ),
        plays(
            "busy",
            "tools",
            "Makes three tool calls in every turn. One of them fails.",
        ),
        plays(
            "planner",
            "plan",
            "Sends a plan and completes it in every turn.",
        ),
        plays("failing", "error", "Every turn ends with an error."),
    ]
}

static ALL: LazyLock<Vec<Variant>> = LazyLock::new(|| {
    let groups = [
        hand::variants(),
        ids::variants(),
        shapes::variants(),
        talk::variants(),
        manners::variants(),
        scenarios(),
    ];
    groups.into_iter().flatten().collect()
});

/// All variants of all mock agents.
pub fn all() -> impl Iterator<Item = &'static Variant> {
    ALL.iter()
}

/// Variants of one mock agent.
pub fn of(kind: Kind) -> impl Iterator<Item = &'static Variant> {
    all().filter(move |variant| variant.kind == kind)
}
