//! The list of all rules, which `explain`, SARIF and the docs read. Each rule is defined in the
//! file of its check.

use crate::model::CheckId;
use crate::{checks, mismatch};

/// How strongly the spec requires something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// A violation fails.
    Must,
    /// A violation warns, or fails with `--strict`.
    Should,
    /// A violation warns, even with `--strict`, because the spec leaves the question open.
    Open,
}

/// One requirement that `aoi-lint` checks.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// `AOI-` and the check number, or `AOI-adv`, then a dot and a slug.
    pub id: &'static str,
    /// The check of §18.2 that the rule belongs to.
    pub check: CheckId,
    /// What a violation leads to.
    pub level: Level,
    /// Section of AOI-CLI v0.2.
    pub section: &'static str,
    /// The requirement, as one full statement without a final period.
    pub requirement: &'static str,
    /// Why the requirement matters to callers of the tool.
    pub why: &'static str,
    /// What the author of the tool should change, as an imperative.
    pub hint: &'static str,
    /// Selects the advice per language (`hints`).
    pub(crate) topic: Topic,
    /// Ids of the spec requirements that the rule decides.
    pub requirement_ids: &'static [&'static str],
}

/// Subject of a rule. Rules with the same topic share their advice per language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Discovery,
    Json,
    Summary,
    Flush,
    Errors,
    Confirm,
    Idempotency,
    Ids,
    Secrets,
    Pipe,
    Signals,
    Bounds,
    Input,
    Versions,
    Help,
    Surface,
}

/// Rules about timing, which a tool on a busy machine may seem to violate.
const TIMED: [&str; 8] = [
    "AOI-10.pipe-hangs",
    "AOI-10.signal-ignored",
    "AOI-10.signal-hangs",
    // A signal may arrive before the tool has installed its handler.
    "AOI-10.no-interrupted-summary",
    "AOI-10.unbounded-silent",
    "AOI-11.streams",
    "AOI-adv.heartbeat",
    "AOI-adv.timeout",
];

/// Whether the rule depends on timing, so that a run on a busy machine cannot decide it.
pub fn is_timed(rule: &Rule) -> bool {
    TIMED.contains(&rule.id)
}

/// Every rule, check by check.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    checks::RULES.iter().flat_map(|rules| rules.iter().copied())
}

/// Finds a rule by its id, ignoring case. `AOI-NN.unprobed` is one rule for every check.
pub fn find(id: &str) -> Option<&'static Rule> {
    let of_any_check = || mismatch::is_unprobed(id).then_some(&mismatch::UNPROBED);
    all()
        .find(|rule| rule.id.eq_ignore_ascii_case(id))
        .or_else(of_any_check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unprobed_command_has_one_rule_for_every_check() {
        for id in ["AOI-01.unprobed", "AOI-13.unprobed", "aoi-NN.unprobed"] {
            assert_eq!(
                find(id).map(|rule| rule.id),
                Some("AOI-01.unprobed"),
                "{id}"
            );
        }
        for id in [
            "AOI-00.unprobed",
            "AOI-14.unprobed",
            "AOI-.unprobed",
            "unprobed",
        ] {
            assert_eq!(find(id), None, "{id}");
        }
    }

    #[test]
    fn every_timed_rule_id_exists() {
        for id in TIMED {
            assert!(find(id).is_some_and(is_timed), "{id}");
        }
    }
}
