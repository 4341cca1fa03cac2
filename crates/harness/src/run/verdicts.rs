//! How a probe reports its findings: each requirement is met, violated, or open for a reason.

use super::case::{CaseOutcome, CaseViolation, NoVerdict};
use crate::suite::Case;

impl CaseOutcome {
    /// A case in which nothing was checked.
    pub fn no_verdict(why: NoVerdict) -> CaseOutcome {
        CaseOutcome {
            no_verdict: Some(why),
            ..CaseOutcome::default()
        }
    }

    pub fn pass(&mut self, id: &str, lines: &[u64]) {
        self.checked.push(id.to_owned());
        self.passed_lines.extend(lines);
    }

    pub fn violation(&mut self, id: &str, message: impl Into<String>, lines: &[u64]) {
        self.add_violation(id, message.into(), lines, false);
    }

    /// A suspected violation, which is at most a warning.
    pub fn suspicion(&mut self, id: &str, message: impl Into<String>, lines: &[u64]) {
        self.add_violation(id, message.into(), lines, true);
    }

    fn add_violation(&mut self, id: &str, message: String, lines: &[u64], is_guess: bool) {
        self.checked.push(id.to_owned());
        self.violations.push(CaseViolation {
            requirement: id.to_owned(),
            is_guess,
            ..CaseViolation::new(message, lines.to_vec())
        });
    }

    /// Leaves one requirement without a verdict.
    pub fn undecided(&mut self, id: &str, why: NoVerdict) {
        self.undecided.push((id.to_owned(), why));
    }

    /// Reports a verdict: violated with a message, met without one.
    pub fn verdict(&mut self, id: &str, against: Option<String>, lines: &[u64]) {
        match against {
            Some(message) => self.violation(id, message, lines),
            None => self.pass(id, lines),
        }
    }

    /// Keeps the verdicts reached before a probe was aborted. The other requirements get its
    /// reason.
    pub fn abort(&mut self, case: &Case, no_verdict: &NoVerdict) {
        let is_decided = |id: &String| {
            self.checked.contains(id) || self.undecided.iter().any(|(known, _)| known == id)
        };
        let left = case.decides.iter().filter(|id| !is_decided(id));
        let left: Vec<_> = left.map(|id| (id.clone(), no_verdict.clone())).collect();
        self.undecided.extend(left);
    }
}
