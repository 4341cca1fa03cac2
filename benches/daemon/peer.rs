//! The peer: a server that forwards ACP over HTTP and SSE, with the same agent.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{Client, Events};

const PACKAGE: &str = "sandbox-agent@0.4.2";

pub struct Peer {
    child: Child,
    client: Client,
    address: String,
    next: u64,
    dir: PathBuf,
}

pub struct PeerSession {
    id: String,
    path: String,
}

impl Peer {
    pub fn start(dir: &Path) -> Peer {
        let program = install();
        let home = dir.join("peer-home");
        std::fs::create_dir_all(&home).expect("made");
        let installed = Command::new(&program)
            .args(["install-agent", "mock"])
            .env("HOME", &home)
            .stdout(Stdio::null())
            .status();
        assert!(
            installed.expect("run").success(),
            "the peer knows a mock agent"
        );
        let agent = home.join(".local/share/sandbox-agent/bin/agent_processes/mock-acp");
        std::fs::write(
            &agent,
            format!(
                "#!/bin/sh\nexec {} {}\n",
                super::BINARY,
                super::AGENT.join(" ")
            ),
        )
        .expect("written");
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).expect("set");
        let port = free_port();
        let child = Command::new(&program)
            .args([
                "server",
                "--no-telemetry",
                "--no-token",
                "--port",
                &port.to_string(),
            ])
            .env("HOME", &home)
            .current_dir(&home)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let address = format!("127.0.0.1:{port}");
        let began = Instant::now();
        while std::net::TcpStream::connect(&address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "the peer serves");
            std::thread::sleep(Duration::from_millis(20));
        }
        Peer {
            child,
            client: Client::new(&address, ""),
            address,
            next: 0,
            dir: dir.to_owned(),
        }
    }

    /// Starts an agent, and opens a session and its stream.
    pub fn session(&mut self, server: &str) -> PeerSession {
        let path = format!("/v1/acp/{server}");
        let hello = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        self.ask(&format!("{path}?agent=mock"), "initialize", hello);
        let session = json!({ "cwd": self.dir, "mcpServers": [] });
        let opened = self.ask(&path, "session/new", session);
        let id = opened["result"]["sessionId"].as_str().expect("an id");
        PeerSession {
            id: id.to_owned(),
            path,
        }
    }

    /// The stream of a session, once the server has responded.
    pub fn events(&self, session: &PeerSession) -> Events {
        let mut events = Events::open(&self.address, "", &session.path);
        events.answered();
        events
    }

    /// Time in ms until the response to the prompt and the last chunk on the stream have arrived.
    pub fn turn(&mut self, session: &PeerSession, events: &mut Events) -> f64 {
        let began = Instant::now();
        let prompt =
            json!({ "sessionId": session.id, "prompt": [{ "type": "text", "text": "hello" }] });
        let answer = self.ask(&session.path, "session/prompt", prompt);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        for _ in 0..3 {
            events.until("agent_message_chunk");
        }
        began.elapsed().as_secs_f64() * 1000.0
    }

    fn ask(&mut self, path: &str, method: &str, params: Value) -> Value {
        self.next += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        let (status, answer) = self.client.post(path, &request);
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn install() -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-peer/daemon");
    let program = dir.join("node_modules/@sandbox-agent/cli-linux-x64/bin/sandbox-agent");
    if !program.is_file() {
        std::fs::create_dir_all(&dir).expect("made");
        std::fs::write(dir.join("package.json"), "{\"private\":true}").expect("written");
        let done = Command::new("npm")
            .args([
                "install",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
                "--save-exact",
                PACKAGE,
            ])
            .current_dir(&dir)
            .status();
        assert!(
            done.expect("npm is installed").success(),
            "the peer is installed"
        );
    }
    program
}

fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    socket.local_addr().expect("an address").port()
}
