//! Short-lived, single-use substitutes for the token, for clients that cannot send a header. An
//! `EventSource` opens one stream with a ticket. A browser gets its token through the link that
//! `serve --open` or `sessions --open` prints. Both are worthless afterwards, so it does not matter if their URLs are
//! logged.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::error::ApiError;
use agentproto_runtime::Error;
use agentproto_runtime::secrets::random;

/// Lifetime of a stream ticket.
pub const STREAM_LIFETIME: Duration = Duration::from_secs(30);
/// Lifetime of a login link.
pub const LINK_LIFETIME: Duration = Duration::from_secs(300);
/// Maximum number of unused tickets. Limits memory if a client only requests tickets.
const MAX_TICKETS: usize = 10_000;

/// What a ticket is valid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// One stream of this session.
    Stream(String),
    /// The token itself.
    Link,
}

#[derive(Default)]
pub struct Tickets {
    /// Unused tickets by hash, so that memory contains no usable ticket and lookup times reveal
    /// nothing.
    open: Mutex<HashMap<[u8; 32], (Purpose, Instant)>>,
}

impl Tickets {
    pub fn issue(&self, purpose: Purpose, lifetime: Duration) -> Result<String, ApiError> {
        let ticket = random::token().map_err(|error: Error| ApiError::from(error))?;
        let mut open = self.open.lock();
        let now = Instant::now();
        if open.len() >= MAX_TICKETS {
            open.retain(|_, (_, until)| *until > now);
        }
        if open.len() >= MAX_TICKETS {
            return Err(
                ApiError::new(429, "too_many_tickets", "too many unused tickets")
                    .hint("use the issued tickets, or wait until they expire"),
            );
        }
        open.insert(hash(&ticket), (purpose, now + lifetime));
        Ok(ticket)
    }

    /// Removes a ticket. Returns whether it was valid for this purpose and has not expired.
    pub fn redeem(&self, ticket: &str, purpose: &Purpose) -> bool {
        let mut open = self.open.lock();
        let found = open.remove(&hash(ticket));
        found.is_some_and(|(kind, until)| kind == *purpose && until > Instant::now())
    }

    /// Removes all tickets.
    pub fn clear(&self) {
        self.open.lock().clear();
    }
}

fn hash(ticket: &str) -> [u8; 32] {
    Sha256::digest(ticket.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_valid_once_for_one_purpose_until_it_expires() {
        let tickets = Tickets::default();
        let stream = |id: &str| Purpose::Stream(id.to_owned());
        let issue = |lifetime| tickets.issue(stream("a"), lifetime).expect("issued");
        let one = issue(STREAM_LIFETIME);
        assert!(tickets.redeem(&one, &stream("a")));
        assert!(!tickets.redeem(&one, &stream("a")), "once");
        let other = issue(STREAM_LIFETIME);
        assert!(!tickets.redeem(&other, &stream("b")), "for another session");
        assert!(!tickets.redeem(&other, &stream("a")), "and gone with that");
        assert!(!tickets.redeem(&issue(STREAM_LIFETIME), &Purpose::Link));
        assert!(
            !tickets.redeem(&issue(Duration::ZERO), &stream("a")),
            "over"
        );
        assert!(!tickets.redeem("odd", &stream("a")));
    }

    #[test]
    fn the_number_of_unused_tickets_is_limited() {
        let tickets = Tickets::default();
        for _ in 0..MAX_TICKETS {
            tickets.issue(Purpose::Link, LINK_LIFETIME).expect("issued");
        }
        let refused = tickets
            .issue(Purpose::Link, LINK_LIFETIME)
            .expect_err("full");
        assert_eq!(refused.status, 429);
    }
}
