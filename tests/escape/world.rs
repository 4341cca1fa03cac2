//! The host that the probes try to reach: files, servers, and a process with a secret.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The same value as in the probe.
pub const SECRET: &str = "the-secret-of-the-host";

/// Path of the probe. `cargo test` builds it next to the tests; the run as an unprivileged user has
/// a copy.
pub fn probe() -> PathBuf {
    if let Some(staged) = std::env::var_os(crate::accounts::PROBE) {
        return staged.into();
    }
    let own = std::env::current_exe().expect("own path");
    let profile = own
        .ancestors()
        .nth(2)
        .expect("target/<profile>/deps/<test>");
    let probe = profile.join("examples/escape_probe");
    assert!(
        probe.exists(),
        "{} is missing: `cargo test` builds it, or `cargo build --example escape_probe`",
        probe.display()
    );
    probe
}

pub fn is_root() -> bool {
    // SAFETY: `geteuid` takes no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Sets the binary that acts as the helper.
pub fn use_helper() {
    let staged = std::env::var_os(crate::accounts::HELPER);
    let helper = staged.unwrap_or_else(|| env!("CARGO_BIN_EXE_agentproto").into());
    agentproto_sandbox::helper::use_binary(helper);
}

/// A fresh directory tree for each attempt, so that attempts cannot influence each other.
pub struct World {
    dir: TempDir,
    words: Vec<(&'static str, String)>,
}

impl World {
    pub fn new(host: &Host) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("escape-")
            .tempdir()
            .expect("temporary directory");
        // Masks apply to resolved paths, so the paths here contain no symlinks.
        let root = fs::canonicalize(dir.path()).expect("real path");
        for directory in [
            "write/secret",
            "write/deep/middle/secret",
            "write/plain",
            "read/secret",
            "outside",
            "home",
            "other",
        ] {
            fs::create_dir_all(root.join(directory)).expect("directory");
        }
        for file in [
            "write/secret/key",
            "write/secret.txt",
            "write/open.txt",
            "write/deep/middle/secret/key",
            "write/deep/file",
            "write/plain/file",
            "read/secret/key",
            "read/secret.txt",
            "read/open.txt",
            "outside/secret.txt",
            "home/secret.txt",
            "replacement",
        ] {
            fs::write(root.join(file), SECRET).expect("file");
        }
        let outside = root.join("outside/secret.txt");
        std::os::unix::fs::symlink(&outside, root.join("read/leads-out")).expect("link");
        fs::copy(probe(), root.join("other/unlisted")).expect("copy of the probe");
        let mut words = host.words.clone();
        let path = |name: &str| root.join(name).to_string_lossy().into_owned();
        for name in ["write", "read", "outside", "home", "other"] {
            words.push((name, path(name)));
        }
        Self { dir, words }
    }

    pub fn root(&self) -> PathBuf {
        fs::canonicalize(self.dir.path()).expect("real path")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn host_path(&self, name: &str) -> PathBuf {
        let known = self.words.iter().find(|(word, _)| *word == name);
        PathBuf::from(&known.expect("a known word").1)
    }

    /// Replaces `{names}` with the paths and numbers of this world.
    pub fn fill(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (name, value) in &self.words {
            out = out.replace(&format!("{{{name}}}"), value);
        }
        assert!(!out.contains('{'), "unknown name in {out}");
        out
    }
}

/// Servers that send the secret to every client, and a process that holds it in memory.
pub struct Host {
    words: Vec<(&'static str, String)>,
    victim: Child,
    _dir: TempDir,
}

impl Host {
    pub fn new() -> Self {
        use_helper();
        let dir = tempfile::Builder::new()
            .prefix("escape-host-")
            .tempdir()
            .expect("temporary directory");
        let sockets = fs::canonicalize(dir.path()).expect("real path");
        let mut words = vec![
            ("sockets", sockets.to_string_lossy().into_owned()),
            ("probe", probe().to_string_lossy().into_owned()),
            (
                "loader",
                crate::policies::loader().to_string_lossy().into_owned(),
            ),
            ("runner", std::process::id().to_string()),
        ];
        let setuid = std::env::var(crate::accounts::SETUID).unwrap_or_default();
        words.push(("setuid", setuid));
        words.push(("tcp", tcp("127.0.0.1:0").expect("loopback")));
        // On a machine without IPv6 there is nothing to reach.
        words.push(("tcp6", tcp("[::1]:0").unwrap_or("[::1]:9".into())));
        words.push(("udp", udp()));
        words.push(("abstract", unix(&sockets)));
        let (victim, address) = victim();
        words.push(("victim", victim.id().to_string()));
        words.push(("address", address));
        Self {
            words,
            victim,
            _dir: dir,
        }
    }

    pub fn tcp_port(&self) -> u16 {
        let (_, address) = self.words.iter().find(|(n, _)| *n == "tcp").expect("tcp");
        address
            .rsplit(':')
            .next()
            .and_then(|p| p.parse().ok())
            .expect("port")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.victim.stdin.take());
        let _ = self.victim.wait();
    }
}

fn tcp(at: &str) -> Option<String> {
    let listener = TcpListener::bind(at).ok()?;
    let address = listener.local_addr().ok()?.to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(SECRET.as_bytes());
        }
    });
    Some(address)
}

fn udp() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("address").to_string();
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((_, from)) = socket.recv_from(&mut question) {
            let _ = socket.send_to(SECRET.as_bytes(), from);
        }
    });
    address
}

/// Servers with sockets in a directory, and one with an abstract name, which is returned.
fn unix(directory: &Path) -> String {
    let name = format!("escape-{}-{}", std::process::id(), directory.display());
    let listeners = [
        UnixListener::bind(directory.join("stream")).expect("bind"),
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).expect("name"))
            .expect("bind"),
    ];
    for listener in listeners {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(SECRET.as_bytes());
            }
        });
    }
    let datagrams = UnixDatagram::bind(directory.join("datagram")).expect("bind");
    std::thread::spawn(move || {
        let mut text = [0; 64];
        while datagrams.recv(&mut text).is_ok() {}
    });
    name
}

fn victim() -> (Child, String) {
    let mut victim = Command::new(probe())
        .arg("victim")
        .env("ESCAPE_SECRET", SECRET)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("victim");
    let mut address = String::new();
    BufReader::new(victim.stdout.take().expect("piped"))
        .read_line(&mut address)
        .expect("its address");
    (victim, address.trim().to_owned())
}
