//! Rate limits per client address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::connections::peer_of;
use crate::rate_limit::{Bucket, Rate};

/// Maximum number of remembered addresses. Beyond it, addresses with full buckets are removed.
const MAX_ADDRESSES: usize = 10_000;

/// Rate limits per client address, for IPv6 per /64 network. Requests with and without the token are
/// counted separately.
#[derive(Clone, Copy, Debug)]
pub struct ClientRates {
    /// For local programs. Only a runaway loop reaches it.
    pub local: Rate,
    /// For clients on the network.
    pub remote: Rate,
    /// For wrong tokens.
    pub failed: Rate,
}

impl Default for ClientRates {
    fn default() -> Self {
        let rate = |per_second, burst| Rate { per_second, burst };
        ClientRates {
            local: rate(20_000.0, 40_000.0),
            remote: rate(100.0, 400.0),
            failed: rate(2.0, 40.0),
        }
    }
}

#[derive(Default)]
struct Buckets(HashMap<Option<IpAddr>, Bucket>);

pub struct RateLimiter {
    rates: ClientRates,
    all: Mutex<Buckets>,
    authenticated: Mutex<Buckets>,
    failed: Mutex<Buckets>,
}

impl RateLimiter {
    pub fn new(rates: ClientRates) -> Self {
        RateLimiter {
            rates,
            all: Mutex::default(),
            authenticated: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Counts one request without the token. Returns how long to wait if there are too many.
    pub fn take(&self, address: Option<IpAddr>) -> Result<(), Duration> {
        take_token(&self.all, address, self.rate(address), Instant::now())
    }

    /// Counts one request with the token.
    pub fn authenticated(&self, address: Option<IpAddr>) -> Result<(), Duration> {
        let rate = self.rate(address);
        take_token(&self.authenticated, address, rate, Instant::now())
    }

    fn rate(&self, address: Option<IpAddr>) -> Rate {
        match address {
            Some(address) if address.is_loopback() => self.rates.local,
            _ => self.rates.remote,
        }
    }

    /// Counts one wrong token.
    pub fn failed(&self, address: Option<IpAddr>) -> Result<(), Duration> {
        take_token(&self.failed, address, self.rates.failed, Instant::now())
    }
}

fn take_token(
    buckets: &Mutex<Buckets>,
    address: Option<IpAddr>,
    rate: Rate,
    now: Instant,
) -> Result<(), Duration> {
    let address = address.map(peer_of);
    let mut buckets = buckets.lock();
    if !buckets.0.contains_key(&address) && buckets.0.len() >= MAX_ADDRESSES {
        buckets.0.retain(|_, bucket| !bucket.is_full(rate, now));
        if buckets.0.len() >= MAX_ADDRESSES {
            return Err(Duration::from_secs(1));
        }
    }
    let bucket = buckets.0.entry(address);
    bucket.or_insert(Bucket::full(rate, now)).take(rate, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_bucket() {
        let buckets = Mutex::default();
        let rate = Rate {
            per_second: 2.0,
            burst: 3.0,
        };
        let start = Instant::now();
        let take = |last: u8, after: f64| {
            let address = Some(IpAddr::from([10, 0, 0, last]));
            let at = start + Duration::from_secs_f64(after);
            super::take_token(&buckets, address, rate, at)
        };
        for _ in 0..3 {
            assert_eq!(take(1, 0.0), Ok(()));
        }
        assert_eq!(take(1, 0.0), Err(Duration::from_millis(500)));
        assert_eq!(take(2, 0.0), Ok(()));
        assert_eq!(take(1, 0.5), Ok(()));
        assert!(take(1, 0.5).is_err());
        for _ in 0..3 {
            assert_eq!(take(1, 60.0), Ok(()));
        }
        assert!(take(1, 60.0).is_err());
    }

    /// A client with IPv6 usually has a whole network, and could use another address each time.
    #[test]
    fn the_addresses_of_a_network_share_a_bucket() {
        let limiter = RateLimiter::new(ClientRates {
            failed: Rate {
                per_second: 0.01,
                burst: 2.0,
            },
            ..ClientRates::default()
        });
        let failed = |text: &str| limiter.failed(text.parse().ok()).is_ok();
        assert!(failed("2001:db8::1") && failed("2001:db8::2"));
        assert!(!failed("2001:db8::ffff:3"));
        assert!(failed("2001:db8:0:1::1"), "another network");
        assert!(failed("10.0.0.1") && failed("::ffff:10.0.0.1"));
        assert!(!failed("10.0.0.1"));
        assert!(failed("10.0.0.2"), "another IPv4 address");
    }
}
