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

/// Probe file entries for the commands that need a host. A session that was prompted waits for an
/// answer.
const COMMANDS: &str = r#"
  sessions:
    ok: [sessions, HOST]
    limit: { flag: --limit, total: 3, page: 2, cursor_flag: --cursor, id: /id }
  sessions export:
    ok: [sessions, export, SESSION, HOST]
    malformed: [[sessions, export], [sessions, export, unknown, HOST]]
  sessions start:
    mutating: true
    ok: [sessions, start, mock-acp, --cwd, "DIR", --label, "l-{uniq}", HOST]
    malformed: [[sessions, start], [sessions, start, unknown, HOST]]
    idempotency: { flag: --idempotency-key }
    dry_run: --dry-run
    events: [host-session]
    id: /id
  sessions prompt:
    mutating: true
    target: { from: sessions start }
    ok: [sessions, prompt, "{id}", ask for permission, --no-wait, HOST]
    malformed: [[sessions, prompt], [sessions, prompt, unknown, text, HOST]]
    idempotency: { flag: --idempotency-key }
    events: [host-session]
    id: /id
  sessions answer:
    mutating: true
    target: { from: sessions prompt }
    ok: [sessions, answer, "{id}", --wait, --option, allow-once, HOST]
    malformed: [[sessions, answer], [sessions, answer, unknown, --cancel, HOST]]
    idempotency: { flag: --idempotency-key }
    events: [host-session]
    id: /id
  sessions interrupt:
    mutating: true
    target: { from: sessions prompt }
    ok: [sessions, interrupt, "{id}", HOST]
    malformed: [[sessions, interrupt], [sessions, interrupt, unknown, HOST]]
    idempotency: { flag: --idempotency-key }
    dry_run: --dry-run
    events: [host-session]
    id: /id
  sessions kill:
    mutating: true
    target: { from: sessions start }
    ok: [sessions, kill, "{id}", HOST]
    malformed: [[sessions, kill], [sessions, kill, unknown, HOST]]
    idempotency: { flag: --idempotency-key }
    dry_run: --dry-run
    events: [host-session]
    id: /id
  sessions forget:
    destructive: true
    target: { from: sessions start }
    ok: [sessions, forget, "{id}", --confirm-count, "1", HOST]
    confirm: [--confirm]
    malformed: [[sessions, forget], [sessions, forget, unknown, --confirm, HOST]]
    idempotency: { flag: --idempotency-key }
    dry_run: --dry-run
    events: [host-session]
    id: /id
"#;

pub struct Host {
    child: Child,
    dir: tempfile::TempDir,
    pub url: String,
    /// One of its sessions.
    session: String,
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
        let mut host = Host {
            child,
            dir,
            url,
            session: String::new(),
        };
        for _ in 0..3 {
            host.session = host.spawn(token);
        }
        host
    }

    /// Starts a session, and returns its id.
    fn spawn(&self, token: &str) -> String {
        let body = json!({ "adapter": "mock-acp", "cwd": self.dir.path() }).to_string();
        let answer = ask(&self.url, token, "POST", "/sessions/agent", &body);
        assert!(answer.starts_with('2'), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        let session: Value = serde_json::from_str(body).expect("JSON");
        session["id"].as_str().expect("an id").to_owned()
    }

    pub fn token_file(&self) -> std::path::PathBuf {
        self.dir.path().join("token")
    }

    /// The probe file with the commands that need a host.
    pub fn probe_file(&self, text: &str) -> String {
        let token = self.token_file();
        let token = token.display();
        let (before, after) = text
            .split_once("leave_out: ")
            .expect("commands to leave out");
        let (_, after) = after.split_once('\n').expect("a line");
        let env = format!(
            "env:\n  SESSIONS_URL: \"{}\"\n  SESSIONS_TOKEN: \"{token}\"\n",
            self.url
        );
        let host = format!("--url, \"{}\", --token-file, \"{token}\"", self.url);
        let dir = self.dir.path().display().to_string();
        let commands = COMMANDS.replace("HOST", &host).replace("DIR", &dir);
        let commands = commands.replace("SESSION", &self.session);
        [&before.replacen("env:\n", &env, 1), after, &commands].concat()
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
