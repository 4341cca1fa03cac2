//! The self-test of the isolation: a child process tries to connect to us and to read a test
//! credential.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::backend::IsolationBackend;
use crate::run::{self, ReadMode, RunDirs, RunSpec, RunStats, StdinSource, StdoutTarget};
use agentproto_sandbox::helper::reach::{self, ReachResult, ReachTask};
use agentproto_sandbox::helper::{self, NAME};

const LIMIT: Duration = Duration::from_secs(10);

/// What the child process reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelfTestResult {
    pub tcp: bool,
    pub udp: bool,
    pub unix: bool,
    /// Whether a unix socket could be created for the test.
    pub unix_tried: bool,
    pub read: Vec<PathBuf>,
    credential: bool,
}

impl SelfTestResult {
    /// What a child process without isolation should have reached, but did not.
    pub fn missing(&self) -> Option<&'static str> {
        if !self.tcp {
            Some("reach a test TCP port")
        } else if !self.udp {
            Some("reach a test UDP port")
        } else if self.unix_tried && !self.unix {
            Some("reach a test unix socket")
        } else if !self.credential {
            Some("read a test file")
        } else {
            None
        }
    }
}

/// The test file that represents a credential.
pub fn test_credential(dirs: &RunDirs) -> PathBuf {
    dirs.root.join("planted/.config/aoi/token")
}

/// Starts the child process, with or without isolation, and returns what it reached.
pub async fn reach(
    backend: Option<&IsolationBackend>,
    dirs: &RunDirs,
) -> Result<SelfTestResult, String> {
    let to_text = |error: std::io::Error| error.to_string();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(to_text)?;
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(to_text)?;
    static SOCKETS: AtomicU64 = AtomicU64::new(0);
    let number = SOCKETS.fetch_add(1, Ordering::Relaxed);
    let path = dirs.root.join(format!("s{number}"));
    let unix = UnixListener::bind(&path).ok();
    tcp.set_nonblocking(true).map_err(to_text)?;
    udp.set_nonblocking(true).map_err(to_text)?;
    if let Some(unix) = &unix {
        unix.set_nonblocking(true).map_err(to_text)?;
    }
    let mut files = vec![test_credential(dirs)];
    files.extend(backend.into_iter().flat_map(|w| w.hidden.iter().cloned()));
    files.retain(|file| !is_partly_visible(file, backend));
    let task = ReachTask {
        tcp: tcp.local_addr().map_err(to_text)?.port(),
        udp: udp.local_addr().map_err(to_text)?.port(),
        unix: unix.is_some().then(|| path.clone()),
        files,
    };
    let reply = run_task(&task, backend, dirs).await?;
    let mut byte = [0; 16];
    let arrival_time = SelfTestResult {
        tcp: reply.tcp || tcp.accept().is_ok(),
        udp: udp.recv(&mut byte).is_ok(),
        unix: reply.unix || unix.as_ref().is_some_and(|unix| unix.accept().is_ok()),
        unix_tried: unix.is_some(),
        credential: reply.read.contains(&test_credential(dirs)),
        read: reply.read,
    };
    let _ = std::fs::remove_file(path);
    Ok(arrival_time)
}

/// A directory with parts that stay visible cannot be empty, so it is not tested.
fn is_partly_visible(file: &std::path::Path, backend: Option<&IsolationBackend>) -> bool {
    backend.is_some_and(|backend| {
        backend
            .visible
            .iter()
            .any(|visible| visible.starts_with(file))
    })
}

async fn run_task(
    task: &ReachTask,
    backend: Option<&IsolationBackend>,
    dirs: &RunDirs,
) -> Result<ReachResult, String> {
    let program = helper::own_path().map_err(|error| error.to_string())?;
    let task = serde_json::to_string(task).map_err(|error| error.to_string())?;
    let spec = RunSpec {
        command: String::new(),
        probe: "self-test of the isolation".to_owned(),
        argv: vec![program.into_os_string(), NAME.into(), reach::MODE.into()],
        env: vec![(reach::TASK.to_owned(), task)],
        input: StdinSource::Null,
        output: StdoutTarget::Pipe,
        stderr_closed: false,
        reader: ReadMode::All,
        backend: backend.cloned(),
        limit: LIMIT,
        is_slow: false,
        is_machine: false,
        version: None,
        canaries: false,
    };
    let capture = run::run(&spec, dirs, &RunStats::default())
        .await
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&capture.stdout).map_err(|_| {
        format!(
            "the child process reported nothing: {}",
            capture.end.describe()
        )
    })
}
