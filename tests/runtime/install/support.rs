//! A simulated machine for one test.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Programs that the scripts of the tests need. `PATH` contains nothing else of the host.
const HELPERS: [&str; 5] = ["mkdir", "cat", "chmod", "cp", "wc"];

/// A fake package manager: records its arguments, and installs the program where the real one
/// would.
const MANAGER: &str = r#"#!/bin/sh
call="${0##*/}"
for word in "$@"; do call="$call|$word"; done
echo "$call" >> "@ROOT@/calls"
echo "working on it"
echo "proxy ${HTTPS_PROXY:-none}" >&2
dest="@ROOT@/path"
[ -n "${GOBIN:-}" ] && dest="$GOBIN"
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix|--root) dest="$2/bin"; shift ;;
    venv) dest="$2/bin"; mkdir -p "$dest"; cp "$0" "$dest/python3"; exit 0 ;;
  esac
  shift
done
case "$0" in */bin/python3) dest="${0%/*}" ;; esac
mkdir -p "$dest"
cp "@ROOT@/program" "$dest/demo-tool"
"#;

pub struct World {
    dir: tempfile::TempDir,
}

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn events(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("one JSON object per line"))
            .collect()
    }

    #[track_caller]
    pub fn fails(&self, code: i32, slug: &str, part: &str) {
        let (out, err) = (&self.stdout, &self.stderr);
        assert_eq!(self.code, code, "{out}\n{err}");
        assert!(err.contains(slug), "no `{slug}` in {err}");
        assert!(err.contains(part), "no `{part}` in {err}");
    }

    #[track_caller]
    pub fn works(&self) -> &Self {
        assert_eq!(self.code, 0, "{}\n{}", self.stdout, self.stderr);
        self
    }
}

impl World {
    pub fn new() -> Self {
        let world = World {
            dir: tempfile::tempdir().expect("a directory"),
        };
        for name in ["path", "helpers", "bundle", "user"] {
            fs::create_dir(world.root().join(name)).expect("made");
        }
        for name in HELPERS {
            let real = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(name));
            let real = real.iter().find(|p| p.exists()).expect("a helper");
            symlink(real, world.root().join("helpers").join(name)).expect("linked");
        }
        world.program("1.2.3");
        world
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn bundle(&self) -> PathBuf {
        self.root().join("bundle")
    }

    pub fn home(&self) -> PathBuf {
        self.root().join("state")
    }

    /// Sets the version of the program that the managers install.
    pub fn program(&self, version: &str) {
        let text = format!("#!/bin/sh\necho demo-tool {version}\n");
        script(&self.root().join("program"), &text);
    }

    pub fn script(&self, at: &str, text: &str) -> PathBuf {
        let path = self.root().join(at);
        fs::create_dir_all(path.parent().expect("inside")).expect("made");
        script(&path, &self.filled(text));
        path
    }

    /// Adds a package manager to `PATH`.
    pub fn manager(&self, name: &str) {
        self.script(&format!("path/{name}"), MANAGER);
    }

    fn filled(&self, text: &str) -> String {
        text.replace("@ROOT@", &self.root().to_string_lossy())
    }

    /// Writes the manifest with these `install` entries.
    pub fn manifest(&self, install: &str) {
        self.manifest_with(install, "range: '>=1 <2'", "");
    }

    pub fn manifest_with(&self, install: &str, check: &str, more: &str) {
        let cmd = match check.contains("cmd:") {
            true => "",
            false => "cmd: demo-tool --version\n  ",
        };
        let parse = match check.contains("parse:") {
            true => "",
            false => "parse: 'demo-tool (\\S+)'\n  ",
        };
        let text = format!(
            "---
name: Demo tool
id: demo-tool
description: Says its version.
version: 1.0.0
bin: demo-tool
install:
{install}
version_check:
  {cmd}{parse}{check}
sandbox:
  network: {{ egress: [] }}
  fs: {{ read: [], write: [] }}
  exec: {{ allow: true }}
  env: {{ pass: [], set: {{}} }}
{more}
commands: {{}}
---
"
        );
        fs::write(self.bundle().join("CLI.md"), text).expect("written");
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
        let path = format!("{0}/path:{0}/helpers", self.root().display());
        command
            .args(words)
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.root().join("user"))
            .env("AGENTPROTO_HOME", self.home())
            .current_dir(self.root());
        command
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        ran(&mut self.command(words))
    }

    pub fn install(&self, more: &[&str]) -> Ran {
        let words: Vec<&str> = ["install", "./bundle"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        self.run(&words)
    }

    /// The recorded calls of the managers, one line each.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.root().join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The files below the home directory that an installation left.
    pub fn tools(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut dirs = vec![self.home().join("tools")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let kind = entry.file_type().expect("known");
                match kind.is_dir() {
                    true => dirs.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        found
    }

    /// Events of the audit log, without the stages that every run has.
    pub fn audit(&self) -> Vec<Value> {
        let log = self.home().join("audit/audit-log.jsonl");
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str::<Value>(line).expect("an event"))
            .filter(|event| {
                !event["event"]
                    .as_str()
                    .is_some_and(|e| e.starts_with("stage."))
            })
            .collect()
    }

    pub fn audited(&self) -> Vec<String> {
        let name = |event: &Value| event["event"].as_str().unwrap_or_default().to_owned();
        self.audit().iter().map(name).collect()
    }
}

pub fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("run");
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Written with a rename, because a process forked by another test could keep the file open for
/// writing.
fn script(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).expect("written");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).expect("set");
    fs::rename(&beside, path).expect("renamed");
}

pub fn sha256(bytes: &[u8]) -> String {
    agentproto_text::hex(&Sha256::digest(bytes))
}

/// The response of the server for a path.
#[derive(Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub location: Option<String>,
    pub body: Vec<u8>,
    /// `Content-Length`, if it differs from the real length.
    pub claims: Option<u64>,
}

impl Answer {
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Answer {
            status: 200,
            body: body.into(),
            ..Answer::default()
        }
    }

    pub fn redirect(to: &str) -> Self {
        Answer {
            status: 302,
            location: Some(to.to_owned()),
            ..Answer::default()
        }
    }
}

type Routes = Arc<Mutex<Vec<(String, Answer)>>>;

/// A local web server that ends with the test process.
pub struct Server {
    pub port: u16,
    routes: Routes,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (routes, asked): (Routes, _) = (Arc::default(), Arc::default());
        let server = Server {
            port,
            routes: Arc::clone(&routes),
            asked: Arc::clone(&asked),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (routes, asked) = (Arc::clone(&routes), Arc::clone(&asked));
                std::thread::spawn(move || serve(stream, &routes, &asked));
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn at(&self, path: &str, answer: Answer) -> String {
        let mut routes = self.routes.lock().expect("whole");
        routes.push((path.to_owned(), answer));
        self.url(path)
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("whole").clone()
    }
}

fn serve(mut stream: TcpStream, routes: &Routes, asked: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
    let mut first = String::new();
    let mut line = String::new();
    let _ = reader.read_line(&mut first);
    while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().expect("whole").push(path.clone());
    let routes = routes.lock().expect("whole").clone();
    let answer = routes.into_iter().find(|(at, _)| *at == path);
    let answer = answer.map_or(
        Answer {
            status: 404,
            ..Answer::default()
        },
        |(_, answer)| answer,
    );
    let length = answer.claims.unwrap_or(answer.body.len() as u64);
    let mut head = format!(
        "HTTP/1.1 {} x\r\nContent-Length: {length}\r\nConnection: close\r\n",
        answer.status
    );
    if let Some(to) = &answer.location {
        head.push_str(&format!("Location: {to}\r\n"));
    }
    head.push_str("\r\n");
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&answer.body);
}
