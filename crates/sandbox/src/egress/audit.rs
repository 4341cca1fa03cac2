//! What the proxy decided, one entry per decision and one per end of a connection.
//!
//! An entry names hosts, addresses and counts. It has no field for a header, a path or a
//! credential, so none can slip in.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use parking_lot::Mutex;
use serde::Serialize;

/// How the client asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    Connect,
    Http,
    Socks5,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The host is listed and a connection to it stands.
    Allowed,
    /// The policy, or the form of the request, forbids it.
    Refused,
    /// The host is listed, but the network did not get there.
    Failed,
    /// An allowed connection is over; only here the bytes are known.
    Closed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// RFC 3339, UTC, milliseconds.
    pub time: String,
    /// Joins `allowed` with its `closed`; counts from 1 in each proxy.
    pub connection: u64,
    pub event: Event,
    pub via: Via,
    /// In canonical form; as asked for, made printable, if it has none.
    pub host: String,
    pub port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The entry of `network.egress` that allows it, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes from the child to the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<u64>,
}

/// Where decisions are told. A connection that cannot be told of is not made.
pub trait AuditSink: Send + Sync + 'static {
    fn record(&self, entry: &Entry) -> io::Result<()>;
}

/// One JSON object per line, appended to a file that only its owner reads.
#[derive(Debug)]
pub struct JsonLines {
    file: Mutex<File>,
}

impl JsonLines {
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
    fn record(&self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut file = self.file.lock();
        // One write per line: lines of several sessions never mix.
        file.write_all(&line)
    }
}

/// Keeps entries in memory, for tests and for callers that show them at the end.
impl AuditSink for std::sync::Mutex<Vec<Entry>> {
    fn record(&self, entry: &Entry) -> io::Result<()> {
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
    fn lines_of_json_for_the_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("audit.jsonl");
        let entry = Entry {
            time: agentproto_text::time::now(),
            connection: 1,
            event: Event::Closed,
            via: Via::Connect,
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
