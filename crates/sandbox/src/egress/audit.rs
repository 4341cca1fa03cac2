//! Audit log of the proxy: one entry for each decision, and one for the end of each connection.
//!
//! An entry contains hosts, addresses and counts. It has no field for a header, a path or a
//! credential, so these cannot end up in the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use agentproto_text::flood::FloodLimit;
use parking_lot::Mutex;
use serde::Serialize;

/// The protocol of a client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientProtocol {
    /// A tunnel by HTTP CONNECT.
    Connect,
    /// A single HTTP request.
    Http,
    /// SOCKS5 CONNECT.
    Socks5,
}

/// What happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AuditEvent {
    /// The host is listed, and a connection to it was made.
    Allowed,
    /// The policy does not allow it, or the request is invalid.
    Refused,
    /// The host is listed, but could not be reached.
    Failed,
    /// An allowed connection has ended. Only this event has byte counts.
    Closed,
}

/// One entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// Time in RFC 3339, UTC, with milliseconds.
    pub time: String,
    /// Number of the connection, which links `allowed` and `closed`. Starts at 1 in each proxy.
    pub connection: u64,
    /// What happened.
    pub event: AuditEvent,
    /// Protocol of the request.
    pub via: ClientProtocol,
    /// Host in canonical form. A host without one appears as requested, with other characters
    /// escaped.
    pub host: String,
    /// Requested port.
    pub port: u16,
    /// Address that was connected to, or that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The entry of `network.egress` that allows it, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why it was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of bytes from the child to the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<u64>,
    /// Number of bytes from the host to the child.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<u64>,
    /// Number of similar events that this entry, the last of them, stands for. `None` means one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl AuditEntry {
    /// Whether no connection was made. A child can cause such entries in any number.
    pub fn is_refusal(&self) -> bool {
        matches!(self.event, AuditEvent::Refused | AuditEvent::Failed)
    }

    fn standing_for(mut self, count: u64) -> Self {
        self.count = (count > 1).then_some(count);
        self
    }
}

/// Receives the decisions. A connection that cannot be recorded is not made.
pub trait AuditSink: Send + Sync + 'static {
    /// Records one entry.
    fn record(&self, entry: &AuditEntry) -> io::Result<()>;
}

/// Appends one JSON object per line to a file that only its owner can read.
#[derive(Debug)]
pub struct JsonLines {
    file: Mutex<File>,
}

impl JsonLines {
    /// Opens a log file to append to, and creates it if it is missing.
    pub fn append(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        Ok(Self {
            file: Mutex::new(file),
        })
    }
}

impl AuditSink for JsonLines {
    fn record(&self, entry: &AuditEntry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut file = self.file.lock();
        // One write per line, so that lines of several sessions never mix.
        file.write_all(&line)
    }
}

/// Maximum number of allowed or closed connections of one run that are kept in memory one by one.
const MAX_KEPT: u64 = 10_000;

/// The decisions of one run, for a file and for a caller that shows them at the end. A flood of
/// refused requests is summarized in both.
#[derive(Debug)]
pub struct Decisions {
    file: Option<JsonLines>,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    entries: Vec<AuditEntry>,
    refusals: FloodLimit<AuditEntry>,
    connections: FloodLimit<AuditEntry>,
}

impl Decisions {
    /// Also writes the decisions to a file, if there is one.
    pub fn new(file: Option<JsonLines>) -> Self {
        let kept = Mutex::new(Kept {
            entries: Vec::new(),
            refusals: FloodLimit::default(),
            connections: FloodLimit::new(MAX_KEPT),
        });
        Decisions { file, kept }
    }

    /// Writes the last summaries, and returns all decisions since the last call. After a write
    /// error, the other summaries are still written, and the next call returns the decisions.
    pub fn finish(&self) -> io::Result<Vec<AuditEntry>> {
        let mut kept = self.kept.lock();
        let mut written = Ok(());
        for (entry, count) in kept.refusals.flush() {
            let entry = entry.standing_for(count);
            written = written.and(self.write(&entry));
            kept.entries.push(entry);
        }
        let connections = kept.connections.flush().into_iter();
        let connections = connections.map(|(entry, count)| entry.standing_for(count));
        kept.entries.extend(connections);
        written?;
        Ok(std::mem::take(&mut kept.entries))
    }

    fn write(&self, entry: &AuditEntry) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.record(entry))
    }
}

impl AuditSink for Decisions {
    fn record(&self, entry: &AuditEntry) -> io::Result<()> {
        let mut kept = self.kept.lock();
        let limit = match entry.is_refusal() {
            true => &mut kept.refusals,
            false => &mut kept.connections,
        };
        let admitted = limit.admit(entry.event.into(), entry.clone(), Instant::now());
        let admitted = admitted.map(|(entry, count)| entry.standing_for(count));
        match (&admitted, entry.is_refusal()) {
            // The file contains every connection that was made.
            (_, false) => self.write(entry)?,
            (Some(summary), true) => self.write(summary)?,
            (None, true) => {}
        }
        kept.entries.extend(admitted);
        Ok(())
    }
}

/// Keeps all entries in memory, for tests.
impl AuditSink for std::sync::Mutex<Vec<AuditEntry>> {
    fn record(&self, entry: &AuditEntry) -> io::Result<()> {
        self.lock()
            .unwrap_or_else(|e| e.into_inner())
            .push(entry.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(event: AuditEvent) -> AuditEntry {
        AuditEntry {
            time: agentproto_text::time::now(),
            connection: 1,
            event,
            via: ClientProtocol::Connect,
            host: "a\"b\n".to_owned(),
            port: 443,
            address: Some("1.1.1.1".parse().expect("address")),
            rule: Some("*.example".to_owned()),
            reason: None,
            up: Some(1),
            down: Some(2),
            count: None,
        }
    }

    #[test]
    fn a_flood_of_refusals_is_summarized_and_a_connection_is_not() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("audit.jsonl");
        let decisions = Decisions::new(Some(JsonLines::append(&path).expect("open")));
        for _ in 0..5_000 {
            for event in [AuditEvent::Refused, AuditEvent::Failed] {
                decisions.record(&entry(event)).expect("recorded");
            }
        }
        for _ in 0..500 {
            decisions
                .record(&entry(AuditEvent::Allowed))
                .expect("recorded");
        }
        let kept = decisions.finish().expect("written");
        assert!(kept.len() < 500 + 2 * 30, "{}", kept.len());
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(text.lines().count(), kept.len());
        for (event, expected) in [
            (AuditEvent::Refused, 5_000),
            (AuditEvent::Failed, 5_000),
            (AuditEvent::Allowed, 500),
        ] {
            let all = kept.iter().filter(|entry| entry.event == event);
            let count: u64 = all.map(|entry| entry.count.unwrap_or(1)).sum();
            assert_eq!(count, expected, "{event:?}");
        }
        assert_eq!(decisions.finish().expect("written"), []);
    }

    #[test]
    fn a_write_error_at_the_end_loses_no_refusals() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("audit.jsonl");
        std::fs::write(&path, "").expect("written");
        // Opened for reading only, so that every write fails.
        let file = Mutex::new(File::open(&path).expect("open"));
        let decisions = Decisions::new(None);
        for _ in 0..100 {
            for event in [AuditEvent::Refused, AuditEvent::Failed] {
                decisions.record(&entry(event)).expect("recorded");
            }
        }
        let decisions = Decisions {
            file: Some(JsonLines { file }),
            ..decisions
        };
        assert!(decisions.finish().is_err());
        let kept = decisions.finish().expect("nothing is left to write");
        let count: u64 = kept.iter().map(|entry| entry.count.unwrap_or(1)).sum();
        assert_eq!(count, 200);
        assert_eq!(decisions.finish().expect("written"), []);
    }

    #[test]
    fn memory_for_connections_is_bounded_and_the_file_has_all() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("audit.jsonl");
        let decisions = Decisions::new(Some(JsonLines::append(&path).expect("open")));
        for _ in 0..MAX_KEPT + 5_000 {
            decisions
                .record(&entry(AuditEvent::Closed))
                .expect("recorded");
        }
        let kept = decisions.finish().expect("written");
        assert!(kept.len() < MAX_KEPT as usize + 10);
        let count: u64 = kept.iter().map(|entry| entry.count.unwrap_or(1)).sum();
        assert_eq!(count, MAX_KEPT + 5_000);
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(text.lines().count() as u64, MAX_KEPT + 5_000);
    }

    #[test]
    fn the_log_is_json_lines_for_the_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("audit.jsonl");
        let entry = entry(AuditEvent::Closed);
        for _ in 0..2 {
            JsonLines::append(&path)
                .expect("open")
                .record(&entry)
                .expect("record");
        }
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(text.lines().count(), 2);
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).expect("json");
            assert_eq!(value["event"], "closed");
            assert_eq!(value["host"], "a\"b\n");
            assert_eq!(value["down"], 2);
            assert!(value.get("reason").is_none());
        }
        let mode = std::fs::metadata(&path)
            .expect("metadata")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
