//! A daemon with a few sessions, for commands that talk to one.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::machine_mode::BINARY;

/// Sends a request to the host. Returns the response from its status on.
pub fn ask(url: &str, token: &str, verb: &str, path: &str, body: &str) -> String {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("connected");
    write!(
        stream,
        "{verb} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (_, answer) = answer.split_once(' ').expect("a status");
    answer.to_owned()
}

pub struct Host {
    child: Child,
    dir: tempfile::TempDir,
    pub url: String,
}

impl Host {
    pub fn start(path: &OsStr) -> Host {
        let dir = tempfile::tempdir().expect("a directory");
        let mut child = Command::new(BINARY)
            .args(["serve", "--port", "0", "--output", "jsonl"])
            .current_dir(dir.path())
            .env("PATH", path)
            .env("HOME", dir.path())
            .env("AGENTPROTO_HOME", dir.path().join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
        let events = lines.map(|line| serde_json::from_str::<Value>(&line.expect("a line")));
        let mut events = events.map(|event| event.expect("an event"));
        let listening = events.find(|event| event["type"] == "listening");
        let listening = listening.expect("it listens");
        let url = listening["url"].as_str().expect("a URL").to_owned();
        drop(events);
        let runtime = std::fs::read(dir.path().join("state/runtime.json")).expect("written");
        let runtime: Value = serde_json::from_slice(&runtime).expect("JSON");
        let token = runtime["token"].as_str().expect("a token");
        std::fs::write(dir.path().join("token"), token).expect("written");
        let host = Host { child, dir, url };
        for _ in 0..3 {
            host.spawn(token);
        }
        host
    }

    fn spawn(&self, token: &str) {
        let body = json!({ "adapter": "mock-acp", "cwd": self.dir.path() }).to_string();
        let answer = ask(&self.url, token, "POST", "/sessions/agent", &body);
        assert!(answer.starts_with('2'), "{answer}");
    }

    pub fn token_file(&self) -> std::path::PathBuf {
        self.dir.path().join("token")
    }

    /// Probe file entries for the commands that need a host.
    pub fn probes(&self) -> String {
        let token = self.token_file();
        format!(
            "  sessions:\n    ok: [sessions, --url, \"{}\", --token-file, \"{}\"]\n    \
             limit: {{ flag: --limit, total: 3, page: 2, cursor_flag: --cursor, id: /id }}\n",
            self.url,
            token.display()
        )
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        // SAFETY: the process is our child and has not been waited for.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}
