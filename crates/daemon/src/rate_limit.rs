//! Rate limits with token buckets.

use std::time::{Duration, Instant};

/// Token bucket: sustained rate per second, and burst size.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Sustained rate per second.
    pub per_second: f64,
    /// Burst size.
    pub burst: f64,
}

/// State of a token bucket, based on a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    tokens: f64,
    since: Instant,
}

impl Bucket {
    pub fn full(rate: Rate, now: Instant) -> Self {
        Bucket {
            tokens: rate.burst,
            since: now,
        }
    }

    fn filled(&self, rate: Rate, now: Instant) -> f64 {
        let added = now.saturating_duration_since(self.since).as_secs_f64() * rate.per_second;
        (self.tokens + added).min(rate.burst)
    }

    /// Whether it is full. A full bucket does not need to be remembered.
    pub fn is_full(&self, rate: Rate, now: Instant) -> bool {
        self.filled(rate, now) >= rate.burst
    }

    /// Takes one token, or returns how long to wait for the next one.
    pub fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        self.tokens = self.filled(rate, now);
        self.since = now;
        if self.tokens < 1.0 {
            return Err(Duration::from_secs_f64(
                (1.0 - self.tokens) / rate.per_second,
            ));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}
