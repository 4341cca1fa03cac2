//! One request for a host: it is checked, recorded in the audit log, and counted until it closes.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::audit::{AuditEntry, AuditEvent, AuditSink, ClientProtocol};
use super::hosts::{Host, HostRules};
use super::proxy::ProxyLimits;
use super::resolve::{self, ReachError, Resolve};
use agentproto_text::time;

/// State that all connections of a proxy share.
pub struct ProxyState {
    pub rules: HostRules,
    pub resolver: Arc<dyn Resolve>,
    pub sink: Arc<dyn AuditSink>,
    pub limits: ProxyLimits,
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
pub struct Dialer {
    pub shared: Arc<ProxyState>,
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

impl Dialer {
    /// Checks, connects and records. `requested` is the host as the client sent it.
    pub async fn open(
        &self,
        via: ClientProtocol,
        requested: &[u8],
        port: u16,
    ) -> Result<(TcpStream, AllowedConnection), Refusal> {
        let host = match Host::parse(requested) {
            Ok(host) if port != 0 => host,
            Ok(_) => return Err(self.malformed(via, printable(requested), "port 0 is invalid")),
            Err(error) => {
                return Err(self.malformed(via, printable(requested), &error.to_string()));
            }
        };
        let mut entry = self.entry(AuditEvent::Failed, via, host.to_string(), port);
        match self.connect(&host, port, &mut entry.rule).await {
            Ok((stream, address)) => self.accept(entry, stream, address),
            Err(error) => Err(self.refuse(entry, &error)),
        }
    }

    async fn connect(
        &self,
        host: &Host,
        port: u16,
        rule: &mut Option<String>,
    ) -> Result<(TcpStream, IpAddr), ReachError> {
        let ProxyState {
            rules,
            resolver,
            limits,
            ..
        } = &*self.shared;
        let checked = resolve::check(host, rules, &**resolver, limits.resolve).await?;
        *rule = Some(checked.rule);
        resolve::connect(&checked.addresses, port, limits.connect).await
    }

    fn accept(
        &self,
        mut entry: AuditEntry,
        stream: TcpStream,
        address: IpAddr,
    ) -> Result<(TcpStream, AllowedConnection), Refusal> {
        // Small writes are passed on at once, as they would be without a proxy.
        let _ = stream.set_nodelay(true);
        entry.event = AuditEvent::Allowed;
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
        let connection = AllowedConnection {
            dialer: self.clone(),
            entry,
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
        };
        Ok((stream, connection))
    }

    fn refuse(&self, mut entry: AuditEntry, error: &ReachError) -> Refusal {
        let counters = &self.shared.counters;
        entry.address = error.address();
        entry.reason = Some(error.to_string());
        let (kind, counter) = match error {
            error if error.is_refusal() => (RefusalKind::Egress, &counters.refused),
            error if error.is_timeout() => (RefusalKind::TimedOut, &counters.failed),
            ReachError::Connect { error, .. }
                if error.kind() == std::io::ErrorKind::ConnectionRefused =>
            {
                (RefusalKind::ConnectionRefused, &counters.failed)
            }
            _ => (RefusalKind::Unreachable, &counters.failed),
        };
        counter.fetch_add(1, Relaxed);
        if kind == RefusalKind::Egress {
            entry.event = AuditEvent::Refused;
        }
        self.record(&entry);
        let host = &entry.host;
        let message = match error {
            ReachError::SpecialAddress { address, .. } => format!(
                "{host} is not reachable from this sandbox: {error}. Add `{address}` to \
                 `network.egress` to allow it."
            ),
            error if error.is_refusal() => format!(
                "{host} is not reachable from this sandbox: {error}. Add `{host}` to \
                 `network.egress` to allow it."
            ),
            _ => format!("{host} was not reached: {error}."),
        };
        Refusal { kind, message }
    }

    /// Records an invalid request.
    pub fn malformed(&self, via: ClientProtocol, host: String, why: &str) -> Refusal {
        let mut entry = self.entry(AuditEvent::Refused, via, host, 0);
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

    fn entry(&self, event: AuditEvent, via: ClientProtocol, host: String, port: u16) -> AuditEntry {
        AuditEntry {
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
            count: None,
        }
    }

    fn record(&self, entry: &AuditEntry) -> bool {
        let recorded = self.shared.sink.record(entry).is_ok();
        if !recorded {
            self.shared.counters.unrecorded.fetch_add(1, Relaxed);
        }
        recorded
    }
}

/// The requested host for the log: without user and password, escaped, and cut to 255 bytes.
fn printable(requested: &[u8]) -> String {
    let host = requested.rsplit(|b| *b == b'@').next().unwrap_or(requested);
    host.iter()
        .take(255)
        .flat_map(|b| std::ascii::escape_default(*b))
        .map(char::from)
        .collect()
}

/// An allowed connection. Its end is recorded however it ends, even if it is aborted.
pub struct AllowedConnection {
    dialer: Dialer,
    entry: AuditEntry,
    pub up: AtomicU64,
    pub down: AtomicU64,
}

impl AllowedConnection {
    pub fn shared(&self) -> &ProxyState {
        &self.dialer.shared
    }

    pub fn host(&self) -> &str {
        &self.entry.host
    }
}

impl Drop for AllowedConnection {
    fn drop(&mut self) {
        let (up, down) = (self.up.load(Relaxed), self.down.load(Relaxed));
        let counters = &self.dialer.shared.counters;
        counters.up.fetch_add(up, Relaxed);
        counters.down.fetch_add(down, Relaxed);
        self.entry.event = AuditEvent::Closed;
        self.entry.time = time::now();
        self.entry.up = Some(up);
        self.entry.down = Some(down);
        self.dialer.record(&self.entry);
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
