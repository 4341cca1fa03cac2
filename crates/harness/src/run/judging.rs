//! How a probe reports its findings: each requirement is met, violated, or open for a reason.

use super::case::{Blocked, Broken, Played};
use crate::suite::Case;

impl Played {
    /// A case in which nothing was checked.
    pub fn blocked(why: Blocked) -> Played {
        Played {
            blocked: Some(why),
            ..Played::default()
        }
    }

    pub fn met(&mut self, id: &str, lines: &[u64]) {
        self.looked_at.push(id.to_owned());
        self.shown.extend(lines);
    }

    pub fn broken(&mut self, id: &str, message: impl Into<String>, lines: &[u64]) {
        self.judge(id, message.into(), lines, false);
    }

    /// A suspected violation, which is at most a warning.
    pub fn doubtful(&mut self, id: &str, message: impl Into<String>, lines: &[u64]) {
        self.judge(id, message.into(), lines, true);
    }

    fn judge(&mut self, id: &str, message: String, lines: &[u64], is_guess: bool) {
        self.looked_at.push(id.to_owned());
        self.broken.push(Broken {
            requirement: id.to_owned(),
            message,
            lines: lines.to_vec(),
            at: None,
            is_guess,
            is_death: false,
        });
    }

    /// Leaves one requirement without a verdict.
    pub fn open(&mut self, id: &str, why: Blocked) {
        self.open.push((id.to_owned(), why));
    }

    /// Reports a verdict: violated with a message, met without one.
    pub fn verdict(&mut self, id: &str, against: Option<String>, lines: &[u64]) {
        match against {
            Some(message) => self.broken(id, message, lines),
            None => self.met(id, lines),
        }
    }

    /// Keeps the verdicts reached before a probe was aborted. The other requirements get its
    /// reason.
    pub fn break_off(&mut self, case: &Case, blocked: &Blocked) {
        let is_judged = |id: &String| {
            self.looked_at.contains(id) || self.open.iter().any(|(known, _)| known == id)
        };
        let left = case.decides.iter().filter(|id| !is_judged(id));
        let left: Vec<_> = left.map(|id| (id.clone(), blocked.clone())).collect();
        self.open.extend(left);
    }
}
