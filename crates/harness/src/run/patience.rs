//! Remembers whether an agent never answers a kind of request. The full time limit is then waited
//! out only a few times, not in every case.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Number of unanswered requests after which the time limit is shortened.
const ENOUGH: u32 = 3;
/// The shortened time limit.
const SHORT: Duration = Duration::from_millis(500);

/// Number of answered and unanswered requests of one kind.
#[derive(Default)]
pub struct Patience {
    answered: AtomicU32,
    silent: AtomicU32,
    /// What was observed when the first request was not answered.
    how: OnceLock<String>,
}

impl Patience {
    pub fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub fn silent(&self) {
        self.silent.fetch_add(1, Ordering::Relaxed);
    }

    /// Like `silent`, with what was observed instead of a response.
    pub fn silent_as(&self, how: &str) {
        let _ = self.how.set(how.to_owned());
        self.silent();
    }

    /// What was observed instead of the first response, if no request was ever answered.
    pub fn never_answered(&self) -> Option<String> {
        let silent = self.silent.load(Ordering::Relaxed);
        let never = self.answered.load(Ordering::Relaxed) == 0 && silent > 0;
        never.then(|| self.how.get().cloned().unwrap_or_default())
    }

    /// Whether no request was answered after several attempts.
    pub fn is_lost(&self) -> bool {
        self.answered.load(Ordering::Relaxed) == 0 && self.silent.load(Ordering::Relaxed) >= ENOUGH
    }

    /// The time limit for the next request.
    pub fn time(&self, usual: Duration) -> Duration {
        match self.is_lost() {
            true => usual.min(SHORT),
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
        let patience = Patience::default();
        assert_eq!(patience.time(usual), usual);
        for _ in 0..ENOUGH {
            patience.silent();
        }
        assert_eq!(patience.time(usual), SHORT);
        patience.answered();
        assert_eq!(patience.time(usual), usual);
    }
}
