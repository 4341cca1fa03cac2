//! Rate limits per client address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::pace::{Bucket, Rate};

/// Maximum number of remembered addresses. Beyond it, addresses with full buckets are removed.
const MOST: usize = 10_000;

#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// For local programs. Only a runaway loop reaches it.
    pub near: Rate,
    pub far: Rate,
    /// For wrong tokens.
    pub failed: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        let rate = |per_second, at_once| Rate {
            per_second,
            at_once,
        };
        Rates {
            near: rate(20_000.0, 40_000.0),
            far: rate(100.0, 400.0),
            failed: rate(2.0, 40.0),
        }
    }
}

#[derive(Default)]
struct Buckets(HashMap<Option<IpAddr>, Bucket>);

pub struct Pace {
    rates: Rates,
    all: Mutex<Buckets>,
    failed: Mutex<Buckets>,
}

impl Pace {
    pub fn new(rates: Rates) -> Self {
        Pace {
            rates,
            all: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Counts one request. Returns how long to wait if there are too many.
    pub fn take(&self, address: Option<IpAddr>) -> Result<(), Duration> {
        let rate = match address {
            Some(address) if address.is_loopback() => self.rates.near,
            _ => self.rates.far,
        };
        draw(&self.all, address, rate, Instant::now())
    }

    /// Counts one wrong token.
    pub fn failed(&self, address: Option<IpAddr>) -> Result<(), Duration> {
        draw(&self.failed, address, self.rates.failed, Instant::now())
    }
}

fn draw(
    buckets: &Mutex<Buckets>,
    address: Option<IpAddr>,
    rate: Rate,
    now: Instant,
) -> Result<(), Duration> {
    let mut buckets = buckets.lock();
    if !buckets.0.contains_key(&address) && buckets.0.len() >= MOST {
        buckets.0.retain(|_, bucket| !bucket.is_full(rate, now));
        if buckets.0.len() >= MOST {
            return Err(Duration::from_secs(1));
        }
    }
    let bucket = buckets.0.entry(address);
    bucket.or_insert(Bucket::full(rate, now)).draw(rate, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_bucket() {
        let buckets = Mutex::default();
        let rate = Rate {
            per_second: 2.0,
            at_once: 3.0,
        };
        let start = Instant::now();
        let draw = |last: u8, after: f64| {
            let address = Some(IpAddr::from([10, 0, 0, last]));
            let at = start + Duration::from_secs_f64(after);
            super::draw(&buckets, address, rate, at)
        };
        for _ in 0..3 {
            assert_eq!(draw(1, 0.0), Ok(()));
        }
        assert_eq!(draw(1, 0.0), Err(Duration::from_millis(500)));
        assert_eq!(draw(2, 0.0), Ok(()));
        assert_eq!(draw(1, 0.5), Ok(()));
        assert!(draw(1, 0.5).is_err());
        for _ in 0..3 {
            assert_eq!(draw(1, 60.0), Ok(()));
        }
        assert!(draw(1, 60.0).is_err());
    }
}
