//! Short-lived, single-use stand-ins for the token, for places that cannot send a header: an
//! `EventSource` opens one stream with one, a browser gets its token for the link that `serve
//! --open` prints. Neither is worth anything afterwards, wherever its URL was written down.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::error::ApiError;
use agentproto_runtime::Fault;
use agentproto_runtime::secrets::random;

/// Of a ticket for a stream.
pub const STREAM_LIFE: Duration = Duration::from_secs(30);
/// Of a link for a browser.
pub const LINK_LIFE: Duration = Duration::from_secs(300);
/// Open at a time: a client that only takes some cannot fill the memory.
const MOST: usize = 10_000;

/// What a ticket is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// One stream of this session.
    Stream(String),
    /// The token itself, once.
    Link,
}

#[derive(Default)]
pub struct Tickets {
    /// By hash: what is in memory opens nothing, and looking it up tells nothing by its time.
    open: Mutex<HashMap<[u8; 32], (Purpose, Instant)>>,
}

impl Tickets {
    pub fn issue(&self, purpose: Purpose, life: Duration) -> Result<String, ApiError> {
        let ticket = random::token().map_err(|fault: Fault| ApiError::from(fault))?;
        let mut open = self.open.lock();
        let now = Instant::now();
        if open.len() >= MOST {
            open.retain(|_, (_, until)| *until > now);
        }
        if open.len() >= MOST {
            return Err(
                ApiError::new(429, "too_many_tickets", "too many tickets are unused")
                    .hint("use those that were issued, or wait until they are over"),
            );
        }
        open.insert(hash(&ticket), (purpose, now + life));
        Ok(ticket)
    }

    /// Takes it; true if it was good for this, here and now.
    pub fn redeem(&self, ticket: &str, purpose: &Purpose) -> bool {
        let mut open = self.open.lock();
        let found = open.remove(&hash(ticket));
        found.is_some_and(|(kind, until)| kind == *purpose && until > Instant::now())
    }
}

fn hash(ticket: &str) -> [u8; 32] {
    Sha256::digest(ticket.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_for_one_thing_and_not_for_long() {
        let tickets = Tickets::default();
        let stream = |id: &str| Purpose::Stream(id.to_owned());
        let issue = |life| tickets.issue(stream("a"), life).expect("issued");
        let one = issue(STREAM_LIFE);
        assert!(tickets.redeem(&one, &stream("a")));
        assert!(!tickets.redeem(&one, &stream("a")), "once");
        let other = issue(STREAM_LIFE);
        assert!(!tickets.redeem(&other, &stream("b")), "for another session");
        assert!(!tickets.redeem(&other, &stream("a")), "and gone with that");
        assert!(!tickets.redeem(&issue(STREAM_LIFE), &Purpose::Link));
        assert!(
            !tickets.redeem(&issue(Duration::ZERO), &stream("a")),
            "over"
        );
        assert!(!tickets.redeem("odd", &stream("a")));
    }

    #[test]
    fn unused_ones_are_bounded() {
        let tickets = Tickets::default();
        for _ in 0..MOST {
            tickets.issue(Purpose::Link, LINK_LIFE).expect("issued");
        }
        let refused = tickets.issue(Purpose::Link, LINK_LIFE).expect_err("full");
        assert_eq!(refused.status, 429);
    }
}
