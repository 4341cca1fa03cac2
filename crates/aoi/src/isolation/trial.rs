//! The self-test of the isolation: a child process tries to connect to us and to read a test
//! credential.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::walls::Walls;
use crate::run::{self, Costs, Input, Launch, Output, Reader, World};
use agentproto_sandbox::helper::reach::{self, Task, Told};
use agentproto_sandbox::helper::{self, NAME};

const LIMIT: Duration = Duration::from_secs(10);

/// What the child process reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    pub tcp: bool,
    pub udp: bool,
    pub unix: bool,
    /// Whether a unix socket could be created for the test.
    pub unix_tried: bool,
    pub read: Vec<PathBuf>,
    planted: bool,
}

impl Reached {
    /// What a child process without isolation should have reached, but did not.
    pub fn missing(&self) -> Option<&'static str> {
        if !self.tcp {
            Some("reach a test TCP port")
        } else if !self.udp {
            Some("reach a test UDP port")
        } else if self.unix_tried && !self.unix {
            Some("reach a test unix socket")
        } else if !self.planted {
            Some("read a test file")
        } else {
            None
        }
    }
}

/// The test file that represents a credential.
pub fn planted(world: &World) -> PathBuf {
    world.root.join("planted/.config/aoi/token")
}

/// Starts the child process, with or without isolation, and returns what it reached.
pub async fn reach(walls: Option<&Walls>, world: &World) -> Result<Reached, String> {
    let told = |error: std::io::Error| error.to_string();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(told)?;
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(told)?;
    static SOCKETS: AtomicU64 = AtomicU64::new(0);
    let number = SOCKETS.fetch_add(1, Ordering::Relaxed);
    let path = world.root.join(format!("s{number}"));
    let unix = UnixListener::bind(&path).ok();
    tcp.set_nonblocking(true).map_err(told)?;
    udp.set_nonblocking(true).map_err(told)?;
    if let Some(unix) = &unix {
        unix.set_nonblocking(true).map_err(told)?;
    }
    let mut files = vec![planted(world)];
    files.extend(walls.into_iter().flat_map(|w| w.hidden.iter().cloned()));
    files.retain(|file| !is_partly_kept(file, walls));
    let task = Task {
        tcp: tcp.local_addr().map_err(told)?.port(),
        udp: udp.local_addr().map_err(told)?.port(),
        unix: unix.is_some().then(|| path.clone()),
        files,
    };
    let said = ask(&task, walls, world).await?;
    let mut byte = [0; 16];
    let arrived = Reached {
        tcp: said.tcp || tcp.accept().is_ok(),
        udp: udp.recv(&mut byte).is_ok(),
        unix: said.unix || unix.as_ref().is_some_and(|unix| unix.accept().is_ok()),
        unix_tried: unix.is_some(),
        planted: said.read.contains(&planted(world)),
        read: said.read,
    };
    let _ = std::fs::remove_file(path);
    Ok(arrived)
}

/// A directory with parts that stay visible cannot be empty, so it is not tested.
fn is_partly_kept(file: &std::path::Path, walls: Option<&Walls>) -> bool {
    walls.is_some_and(|walls| walls.kept.iter().any(|kept| kept.starts_with(file)))
}

async fn ask(task: &Task, walls: Option<&Walls>, world: &World) -> Result<Told, String> {
    let program = helper::own_path().map_err(|error| error.to_string())?;
    let task = serde_json::to_string(task).map_err(|error| error.to_string())?;
    let launch = Launch {
        command: String::new(),
        probe: "self-test of the isolation".to_owned(),
        argv: vec![program.into_os_string(), NAME.into(), reach::WORD.into()],
        env: vec![(reach::TASK.to_owned(), task)],
        input: Input::Null,
        output: Output::Pipe,
        stderr_closed: false,
        reader: Reader::All,
        walls: walls.cloned(),
        limit: LIMIT,
        is_slow: false,
        is_machine: false,
        version: None,
        canaries: false,
    };
    let capture = run::run(&launch, world, &Costs::default())
        .await
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&capture.stdout)
        .map_err(|_| format!("the child process reported nothing: {}", capture.end.told()))
}
