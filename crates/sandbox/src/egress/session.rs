//! One request for a host: it is checked, recorded in the audit log, and counted until it closes.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::audit::{AuditSink, Entry, Event, Via};
use super::hosts::{Host, HostRules};
use super::proxy::Limits;
use super::resolve::{self, Resolve, Unreached};
use agentproto_text::time;

/// State that all connections of a proxy share.
pub struct Shared {
    pub rules: HostRules,
    pub resolver: Arc<dyn Resolve>,
    pub sink: Arc<dyn AuditSink>,
    pub limits: Limits,
    pub counters: Counters,
    /// Limits the number of large buffers, because they take memory of the whole runner.
    pub large: Semaphore,
}

#[derive(Debug, Default)]
pub struct Counters {
    pub connections: AtomicU64,
    pub active: AtomicUsize,
    pub allowed: AtomicU64,
    pub refused: AtomicU64,
    pub failed: AtomicU64,
    pub unrecorded: AtomicU64,
    pub up: AtomicU64,
    pub down: AtomicU64,
}

/// The client side of one connection.
#[derive(Clone)]
pub struct Asker {
    pub shared: Arc<Shared>,
    pub connection: u64,
}

/// A request that was not carried out, with a message for the client.
#[derive(Debug)]
pub struct Refusal {
    pub kind: RefusalKind,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The policy does not allow it.
    Egress,
    Unreachable,
    ConnectionRefused,
    TimedOut,
    /// The audit log could not be written.
    Unrecorded,
}

impl Asker {
    /// Checks, connects and records. `asked` is whatever was in the host's place.
    pub async fn open(
        &self,
        via: Via,
        asked: &[u8],
        port: u16,
    ) -> Result<(TcpStream, Session), Refusal> {
        let host = match Host::parse(asked) {
            Ok(host) if port != 0 => host,
            Ok(_) => return Err(self.malformed(via, printable(asked), "port 0 is invalid")),
            Err(fault) => {
                return Err(self.malformed(via, printable(asked), &fault.to_string()));
            }
        };
        let mut entry = self.entry(Event::Failed, via, host.to_string(), port);
        match self.reach(&host, port, &mut entry.rule).await {
            Ok((stream, address)) => self.admit(entry, stream, address),
            Err(unreached) => Err(self.turn_away(entry, &unreached)),
        }
    }

    async fn reach(
        &self,
        host: &Host,
        port: u16,
        rule: &mut Option<String>,
    ) -> Result<(TcpStream, IpAddr), Unreached> {
        let Shared {
            rules,
            resolver,
            limits,
            ..
        } = &*self.shared;
        let checked = resolve::check(host, rules, &**resolver, limits.resolve).await?;
        *rule = Some(checked.rule);
        resolve::connect(&checked.addresses, port, limits.connect).await
    }

    fn admit(
        &self,
        mut entry: Entry,
        stream: TcpStream,
        address: IpAddr,
    ) -> Result<(TcpStream, Session), Refusal> {
        // Small writes are passed on at once, as they would be without a proxy.
        let _ = stream.set_nodelay(true);
        entry.event = Event::Allowed;
        entry.address = Some(address);
        if !self.record(&entry) {
            return Err(Refusal {
                kind: RefusalKind::Unrecorded,
                message: format!(
                    "{} was not reached: the audit log could not be written, and connections \
                     that are not recorded are not allowed",
                    entry.host
                ),
            });
        }
        self.shared.counters.allowed.fetch_add(1, Relaxed);
        let session = Session {
            asker: self.clone(),
            entry,
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
        };
        Ok((stream, session))
    }

    fn turn_away(&self, mut entry: Entry, unreached: &Unreached) -> Refusal {
        let counters = &self.shared.counters;
        entry.address = unreached.address();
        entry.reason = Some(unreached.to_string());
        let (kind, counter) = match unreached {
            fault if fault.is_refusal() => (RefusalKind::Egress, &counters.refused),
            fault if fault.is_timeout() => (RefusalKind::TimedOut, &counters.failed),
            Unreached::Connect { error, .. }
                if error.kind() == std::io::ErrorKind::ConnectionRefused =>
            {
                (RefusalKind::ConnectionRefused, &counters.failed)
            }
            _ => (RefusalKind::Unreachable, &counters.failed),
        };
        counter.fetch_add(1, Relaxed);
        if kind == RefusalKind::Egress {
            entry.event = Event::Refused;
        }
        self.record(&entry);
        let host = &entry.host;
        let message = match unreached {
            Unreached::SpecialAddress { address, .. } => format!(
                "{host} is not reachable from this sandbox: {unreached}. Add `{address}` to \
                 `network.egress` to allow it."
            ),
            fault if fault.is_refusal() => format!(
                "{host} is not reachable from this sandbox: {unreached}. Add `{host}` to \
                 `network.egress` to allow it."
            ),
            _ => format!("{host} was not reached: {unreached}."),
        };
        Refusal { kind, message }
    }

    /// Records an invalid request.
    pub fn malformed(&self, via: Via, host: String, why: &str) -> Refusal {
        let mut entry = self.entry(Event::Refused, via, host, 0);
        entry.reason = Some(format!("invalid request: {why}"));
        self.shared.counters.refused.fetch_add(1, Relaxed);
        self.record(&entry);
        Refusal {
            kind: RefusalKind::Egress,
            message: format!(
                "The request was refused: {why}. `network.egress` can only allow host names and \
                 single addresses."
            ),
        }
    }

    fn entry(&self, event: Event, via: Via, host: String, port: u16) -> Entry {
        Entry {
            time: time::now(),
            connection: self.connection,
            event,
            via,
            host,
            port,
            address: None,
            rule: None,
            reason: None,
            up: None,
            down: None,
        }
    }

    fn record(&self, entry: &Entry) -> bool {
        let recorded = self.shared.sink.record(entry).is_ok();
        if !recorded {
            self.shared.counters.unrecorded.fetch_add(1, Relaxed);
        }
        recorded
    }
}

/// The requested host for the log: without user and password, escaped, and cut to 255 bytes.
fn printable(asked: &[u8]) -> String {
    let host = asked.rsplit(|b| *b == b'@').next().unwrap_or(asked);
    host.iter()
        .take(255)
        .flat_map(|b| std::ascii::escape_default(*b))
        .map(char::from)
        .collect()
}

/// An allowed connection. Its end is recorded however it ends, even if it is aborted.
pub struct Session {
    asker: Asker,
    entry: Entry,
    pub up: AtomicU64,
    pub down: AtomicU64,
}

impl Session {
    pub fn shared(&self) -> &Shared {
        &self.asker.shared
    }

    pub fn host(&self) -> &str {
        &self.entry.host
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let (up, down) = (self.up.load(Relaxed), self.down.load(Relaxed));
        let counters = &self.asker.shared.counters;
        counters.up.fetch_add(up, Relaxed);
        counters.down.fetch_add(down, Relaxed);
        self.entry.event = Event::Closed;
        self.entry.time = time::now();
        self.entry.up = Some(up);
        self.entry.down = Some(down);
        self.asker.record(&self.entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_no_credentials_or_control_characters() {
        assert_eq!(printable(b"user:pass@host"), "host");
        assert_eq!(printable(b"a@b@c\r\n\xff"), "c\\r\\n\\xff");
        assert_eq!(printable(&[b'x'; 400]).len(), 255);
    }
}
