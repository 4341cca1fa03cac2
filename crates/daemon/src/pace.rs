//! How fast something may happen: buckets that fill with time.

use std::time::{Duration, Instant};

/// A second in the long run, and at once.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub per_second: f64,
    pub at_once: f64,
}

/// What is left of a rate. The time is that of a clock that nobody can set.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    left: f64,
    since: Instant,
}

impl Bucket {
    pub fn full(rate: Rate, now: Instant) -> Self {
        Bucket {
            left: rate.at_once,
            since: now,
        }
    }

    fn filled(&self, rate: Rate, now: Instant) -> f64 {
        let more = now.saturating_duration_since(self.since).as_secs_f64() * rate.per_second;
        (self.left + more).min(rate.at_once)
    }

    /// Nothing was taken for so long that it might as well be forgotten.
    pub fn is_full(&self, rate: Rate, now: Instant) -> bool {
        self.filled(rate, now) >= rate.at_once
    }

    /// Takes one; how long to wait, where it comes too soon.
    pub fn draw(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        self.left = self.filled(rate, now);
        self.since = now;
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) / rate.per_second));
        }
        self.left -= 1.0;
        Ok(())
    }
}
