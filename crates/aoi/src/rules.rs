//! What the engine demands: every rule with its section, and what to do about it. Each check's
//! file has its own; this is the list of all of them, which `explain`, SARIF and the docs read.

use crate::checks;
use crate::model::Check;

/// How much the text asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Broken, it fails.
    Must,
    /// Broken, it warns; with `--strict` it fails.
    Should,
    /// Broken, it warns, strictly or not: the text leaves it open.
    Open,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// `AOI-` and the check's number, or `AOI-adv`, then what is wrong.
    pub id: &'static str,
    pub check: Check,
    pub level: Level,
    /// Of AOI-CLI v0.2.
    pub section: &'static str,
    /// What is demanded, in a sentence.
    pub demands: &'static str,
    /// Why it matters to whoever calls the tool.
    pub why: &'static str,
    /// What to do where it is broken.
    pub hint: &'static str,
    /// Which piece of advice per language fits (`hints`).
    pub topic: Topic,
    /// Rows of the register of specs.
    pub register: &'static [&'static str],
}

/// What a rule is about, for advice in a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
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
    Surface,
}

/// Rules that a machine under load may seem to break: they are about how soon something comes.
const TIMED: [&str; 8] = [
    "AOI-10.pipe-hangs",
    "AOI-10.signal-ignored",
    "AOI-10.signal-hangs",
    // A signal may come before the tool was ready for it.
    "AOI-10.no-interrupted-summary",
    "AOI-10.unbounded-silent",
    "AOI-11.streams",
    "AOI-adv.heartbeat",
    "AOI-adv.timeout",
];

pub fn is_timed(rule: &Rule) -> bool {
    TIMED.contains(&rule.id)
}

/// Every rule, check by check.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    checks::RULES.iter().flat_map(|rules| rules.iter().copied())
}

pub fn find(id: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_about_time_are_rules() {
        for id in TIMED {
            assert!(find(id).is_some_and(is_timed), "{id}");
        }
    }
}
