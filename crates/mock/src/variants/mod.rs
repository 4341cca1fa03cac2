//! Correct agents that look unlike the plain mock.
//!
//! A variant is as right as the mock itself; only its ways are different. What a judge holds
//! against one of them is a mistake of the judge.

pub mod aoi;
mod hand;
mod ids;
mod manners;
mod shapes;
mod talk;

use crate::Kind;
use crate::mutants::Tamper;
pub use hand::Hand;

pub struct Variant {
    pub kind: Kind,
    pub name: &'static str,
    /// How it is unlike others, in a sentence.
    pub what: &'static str,
    /// What it does, unless another scenario is asked for.
    pub scenario: &'static str,
    pub(super) tamper: Option<Tamper>,
    pub(super) hand: Hand,
}

/// Nothing but another scenario.
const fn plays(name: &'static str, scenario: &'static str, what: &'static str) -> Variant {
    Variant {
        kind: Kind::Acp,
        name,
        what,
        scenario,
        tamper: None,
        hand: Hand::PLAIN,
    }
}

/// The default scenario with messages of another look.
const fn looks(name: &'static str, what: &'static str, tamper: Tamper) -> Variant {
    let mut variant = plays(name, "default", what);
    variant.tamper = Some(tamper);
    variant
}

/// The default scenario, written by another hand.
const fn writes(kind: Kind, name: &'static str, what: &'static str, hand: Hand) -> Variant {
    let mut variant = plays(name, "default", what);
    variant.kind = kind;
    variant.hand = hand;
    variant
}

impl Variant {
    const fn in_scenario(mut self, scenario: &'static str) -> Variant {
        self.scenario = scenario;
        self
    }
    const fn of_mcp(mut self) -> Variant {
        self.kind = Kind::Mcp;
        self
    }
}

static SCENARIOS: &[Variant] = &[
    plays("bare", "bare", "Offers nothing that is optional."),
    plays("rich", "rich", "Offers everything that is optional."),
    plays("locked", "auth", "Needs a login before a session."),
    plays(
        "many-settings",
        "modes",
        "Three modes and three options; the agent changes them too.",
    ),
    plays(
        "news",
        "updates",
        "Title, token counts, cost, a notice and a compaction in every turn.",
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
        "Three tool calls in every turn; one of them fails.",
    ),
    plays(
        "planner",
        "plan",
        "A plan that is worked off in every turn.",
    ),
    plays("failing", "error", "Every turn ends with an error."),
];

/// Every variant of every mock.
pub fn all() -> impl Iterator<Item = &'static Variant> {
    let groups = [
        hand::VARIANTS,
        ids::VARIANTS,
        shapes::VARIANTS,
        talk::VARIANTS,
        manners::VARIANTS,
        SCENARIOS,
    ];
    groups.into_iter().flatten()
}

pub fn of(kind: Kind) -> impl Iterator<Item = &'static Variant> {
    all().filter(move |variant| variant.kind == kind)
}
