//! Remembers whether an agent never answers a kind of request. The full time limit is then waited
//! out only a few times, not in every case.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Number of unanswered requests after which the time limit is shortened.
const MAX_UNANSWERED: u32 = 3;
/// The shortened time limit.
const SHORT_LIMIT: Duration = Duration::from_millis(500);

/// Number of answered and unanswered requests of one kind.
#[derive(Default)]
pub struct ResponseHistory {
    answered: AtomicU32,
    unanswered: AtomicU32,
    /// What was observed when the first request was not answered.
    first_failure: OnceLock<String>,
}

impl ResponseHistory {
    /// Counts a request that was answered.
    pub fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that was not answered.
    pub fn unanswered(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// Like `unanswered`, with what was observed instead of a response.
    pub fn unanswered_because(&self, first_failure: &str) {
        let _ = self.first_failure.set(first_failure.to_owned());
        self.unanswered();
    }

    /// What was observed instead of the first response, if no request was ever answered.
    pub fn never_answered(&self) -> Option<String> {
        let unanswered = self.unanswered.load(Ordering::Relaxed);
        let never = self.answered.load(Ordering::Relaxed) == 0 && unanswered > 0;
        never.then(|| self.first_failure.get().cloned().unwrap_or_default())
    }

    /// Whether no request was answered after several attempts.
    pub fn never_answers(&self) -> bool {
        self.answered.load(Ordering::Relaxed) == 0
            && self.unanswered.load(Ordering::Relaxed) >= MAX_UNANSWERED
    }

    /// Waits only for the shortened time limit from now on.
    pub fn give_up(&self) {
        self.unanswered.fetch_max(MAX_UNANSWERED, Ordering::Relaxed);
    }

    /// Forgets requests that were not answered, because they may be answered now.
    pub fn try_again(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// The time limit for the next request.
    pub fn time_limit(&self, usual: Duration) -> Duration {
        match self.never_answers() {
            true => usual.min(SHORT_LIMIT),
            false => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_short_if_nothing_was_ever_answered() {
        let usual = Duration::from_secs(30);
        let history = ResponseHistory::default();
        assert_eq!(history.time_limit(usual), usual);
        for _ in 0..MAX_UNANSWERED {
            history.unanswered();
        }
        assert_eq!(history.time_limit(usual), SHORT_LIMIT);
        history.try_again();
        assert_eq!(history.time_limit(usual), usual);
        history.give_up();
        assert_eq!(history.time_limit(usual), SHORT_LIMIT);
        history.answered();
        assert_eq!(history.time_limit(usual), usual);
    }
}
