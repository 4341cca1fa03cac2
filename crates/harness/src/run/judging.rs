//! How a probe says what it found: each statement is met, broken, or open for a reason.

use super::case::{Blocked, Broken, Played};
use crate::suite::Case;

impl Played {
    /// A case in which nothing was looked at.
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

    /// Nothing that the text forbids, and yet not as it should be.
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

    /// One statement that cannot be decided here.
    pub fn open(&mut self, id: &str, why: Blocked) {
        self.open.push((id.to_owned(), why));
    }

    /// Met where there is nothing to say against it.
    pub fn verdict(&mut self, id: &str, against: Option<String>, lines: &[u64]) {
        match against {
            Some(message) => self.broken(id, message, lines),
            None => self.met(id, lines),
        }
    }

    /// What was judged before a probe broke off stays judged; the rest is open.
    pub fn break_off(&mut self, case: &Case, blocked: &Blocked) {
        let is_judged = |id: &String| {
            self.looked_at.contains(id) || self.open.iter().any(|(known, _)| known == id)
        };
        let left = case.decides.iter().filter(|id| !is_judged(id));
        let left: Vec<_> = left.map(|id| (id.clone(), blocked.clone())).collect();
        self.open.extend(left);
    }
}
