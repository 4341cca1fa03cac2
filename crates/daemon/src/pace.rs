//! Rate limits with token buckets.

use std::time::{Duration, Instant};

/// Token bucket: sustained rate per second, and burst size.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Sustained rate per second.
    pub per_second: f64,
    /// Burst size.
    pub at_once: f64,
}

/// State of a token bucket, based on a monotonic clock.
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

    /// Whether it is full. A full bucket does not need to be remembered.
    pub fn is_full(&self, rate: Rate, now: Instant) -> bool {
        self.filled(rate, now) >= rate.at_once
    }

    /// Takes one token, or returns how long to wait for the next one.
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
