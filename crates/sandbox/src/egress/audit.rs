//! Audit log of the proxy: one entry for each decision, and one for the end of each connection.
//!
//! An entry contains hosts, addresses and counts. It has no field for a header, a path or a
//! credential, so these cannot end up in the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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

/// Keeps entries in memory, for tests and for callers that show them at the end.
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

    #[test]
    fn the_log_is_json_lines_for_the_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("audit.jsonl");
        let entry = AuditEntry {
            time: agentproto_text::time::now(),
            connection: 1,
            event: AuditEvent::Closed,
            via: ClientProtocol::Connect,
            host: "a\"b\n".to_owned(),
            port: 443,
            address: Some("1.1.1.1".parse().expect("address")),
            rule: Some("*.example".to_owned()),
            reason: None,
            up: Some(1),
            down: Some(2),
        };
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
