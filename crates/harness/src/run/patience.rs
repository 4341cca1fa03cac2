//! What earlier cases learned about an agent that never answers: the time limit is waited for a
//! few times, and not in every case again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// So many times in a row silence is waited out.
const ENOUGH: u32 = 3;
/// Afterwards an answer has so long to come.
const SHORT: Duration = Duration::from_millis(500);

/// Answers and silences to one kind of request.
#[derive(Default)]
pub struct Patience {
    answered: AtomicU32,
    silent: AtomicU32,
    /// What the first silence looked like.
    how: OnceLock<String>,
}

impl Patience {
    pub fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub fn silent(&self) {
        self.silent.fetch_add(1, Ordering::Relaxed);
    }

    /// As `silent`, with what was seen in place of an answer.
    pub fn silent_as(&self, how: &str) {
        let _ = self.how.set(how.to_owned());
        self.silent();
    }

    /// What came in place of the first answer, where there never was one.
    pub fn never_answered(&self) -> Option<String> {
        let silent = self.silent.load(Ordering::Relaxed);
        let never = self.answered.load(Ordering::Relaxed) == 0 && silent > 0;
        never.then(|| self.how.get().cloned().unwrap_or_default())
    }

    /// Whether it was never answered, however often it was asked.
    pub fn is_lost(&self) -> bool {
        self.answered.load(Ordering::Relaxed) == 0 && self.silent.load(Ordering::Relaxed) >= ENOUGH
    }

    /// How long to wait this time.
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
    fn patience_ends_where_nothing_was_ever_answered() {
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
