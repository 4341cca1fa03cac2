//! Tries what a process can reach, once inside a sandbox that should prevent all of it, and once
//! without.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Second argument that starts this mode.
pub const MODE: &str = "reach";
/// Environment variable with the task.
pub const TASK: &str = "AGENTPROTO_REACH";

const TIMEOUT: Duration = Duration::from_secs(2);

/// What to try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReachTask {
    /// TCP port on the loopback address.
    pub tcp: u16,
    /// UDP port on the loopback address.
    pub udp: u16,
    /// Path of a Unix socket.
    pub unix: Option<PathBuf>,
    /// Files and directories that are not empty.
    pub files: Vec<PathBuf>,
}

/// What succeeded on this side. The other side knows what arrived.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReachResult {
    /// Whether the TCP port accepted a connection.
    pub tcp: bool,
    /// Whether the Unix socket accepted a connection.
    pub unix: bool,
    /// The files that could be read.
    pub read: Vec<PathBuf>,
}

/// Reads the task, prints one line of JSON, and returns.
pub fn run() {
    let task = std::env::var(TASK).unwrap_or_default();
    let Ok(task) = serde_json::from_str::<ReachTask>(&task) else {
        return;
    };
    let result = ReachResult {
        tcp: TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, task.tcp).into(), TIMEOUT).is_ok(),
        unix: task.unix.as_deref().is_some_and(can_connect),
        read: task
            .files
            .into_iter()
            .filter(|file| can_read(file))
            .collect(),
    };
    if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) {
        let _ = socket.send_to(b"reached", (Ipv4Addr::LOCALHOST, task.udp));
    }
    let mut out = std::io::stdout().lock();
    if let Ok(text) = serde_json::to_string(&result) {
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }
}

fn can_connect(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

fn can_read(path: &Path) -> bool {
    if path.is_dir() {
        return std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    }
    let mut byte = [0];
    std::fs::File::open(path).is_ok_and(|mut file| file.read(&mut byte).is_ok_and(|n| n == 1))
}
