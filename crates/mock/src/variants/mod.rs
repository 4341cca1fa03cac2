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

use std::sync::LazyLock;

use crate::Kind;
use crate::mutants::Tamper;
pub use hand::Hand;

/// A mock that speaks: which, in what scenario, and how it looks.
pub struct Look {
    pub kind: Kind,
    /// What it does, unless another scenario is asked for.
    pub scenario: &'static str,
    pub(super) tamper: Option<Tamper>,
    pub(super) hand: Hand,
}

pub type Variant = crate::model::Variant<Look>;

/// Nothing but another scenario.
fn plays(name: &'static str, scenario: &'static str, what: &'static str) -> Variant {
    let made = Look {
        kind: Kind::Acp,
        scenario,
        tamper: None,
        hand: Hand::PLAIN,
    };
    Variant { name, what, made }
}

/// The default scenario with messages of another look.
fn looks(name: &'static str, what: &'static str, tamper: Tamper) -> Variant {
    let mut variant = plays(name, "default", what);
    variant.made.tamper = Some(tamper);
    variant
}

/// The default scenario, written by another hand.
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

/// Every variant of every mock.
pub fn all() -> impl Iterator<Item = &'static Variant> {
    ALL.iter()
}

pub fn of(kind: Kind) -> impl Iterator<Item = &'static Variant> {
    all().filter(move |variant| variant.kind == kind)
}
