//! Runs the tool in a controlled environment.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Time limit that a conforming run never reaches, even on a loaded machine.
pub const LONG: Duration = Duration::from_secs(60);

/// A working directory, a home directory and a state directory.
pub struct Ground {
    dir: TempDir,
    pub who: Vec<String>,
    pub env: Vec<(String, String)>,
}

pub struct Ran {
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub status: ExitStatus,
}

impl Ground {
    pub fn new() -> Ground {
        let dir = tempfile::tempdir().expect("a directory");
        for part in ["work", "home", "bin"] {
            fs::create_dir(dir.path().join(part)).expect("a directory");
        }
        Ground {
            dir,
            who: Vec::new(),
            env: Vec::new(),
        }
    }

    pub fn mutant(id: &str) -> Ground {
        let mut ground = Ground::new();
        ground.who = vec!["--mutant".to_owned(), id.to_owned()];
        ground
    }

    pub fn variant(name: &str) -> Ground {
        let mut ground = Ground::new();
        ground.who = vec!["--variant".to_owned(), name.to_owned()];
        ground
    }

    pub fn path(&self, part: &str) -> PathBuf {
        self.dir.path().join(part)
    }

    pub fn env(mut self, name: &str, value: &str) -> Ground {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A command without a state directory.
    pub fn stateless(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        command
            .args(["mock", "aoi"])
            .args(&self.who)
            .arg("--")
            .args(args)
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path("home"))
            .envs(self.env.iter().cloned())
            .current_dir(self.path("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.stateless(args);
        command.env("MOCK_AOI_STATE", self.path("state"));
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.fed(args, None)
    }

    pub fn fed(&self, args: &[&str], input: Option<&str>) -> Ran {
        let mut command = self.command(args);
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().expect("it starts");
        feed(&mut child, input);
        let output = child.wait_with_output().expect("it ends");
        Ran {
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: output.status,
        }
    }

    /// Installs a fake browser that only prints the address.
    pub fn install_browser(&self) {
        let path = self.path("bin/xdg-open");
        fs::write(&path, "#!/bin/sh\necho \"opened $1\"\n").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    }

    /// Every file below the directory, with its content.
    pub fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        collect(self.dir.path(), self.dir.path(), &mut files);
        files
    }
}

fn collect(root: &Path, dir: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, files);
            continue;
        }
        let bytes = fs::read(&path).unwrap_or_default();
        let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
        files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
    }
}

pub fn feed(child: &mut Child, input: Option<&str>) {
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // A process that does not read stdin may close it early.
        let _ = stdin.write_all(input.as_bytes());
    }
}

impl Ran {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("UTF-8")
    }
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).expect("one JSON document")
    }

    /// The events of a stream, after checking the rules for every stream.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        assert!(text.ends_with('\n'), "the last line has no newline: {text}");
        assert!(!text.contains(['\r', '\u{1b}']), "{text}");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect();
        let kind = |event: &Value| event["type"].as_str().expect("a type").to_owned();
        let kinds: Vec<String> = lines.iter().map(kind).collect();
        let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
        assert_eq!(kinds.first().map(String::as_str), Some("aoi:meta"));
        assert_eq!(kinds.last().map(String::as_str), Some("aoi:summary"));
        assert_eq!((count("aoi:meta"), count("aoi:summary")), (1, 1));
        let results = kinds.iter();
        let results = results.filter(|k| !k.starts_with("aoi:") || *k == "aoi:check");
        let summary = lines.last().expect("a summary");
        assert_eq!(summary["count"], results.count(), "{text}");
        assert_eq!(summary["error_count"], count("aoi:error"), "{text}");
        assert_eq!(summary["warning_count"], count("aoi:warning"), "{text}");
        lines
    }

    pub fn of(&self, kind: &str) -> Vec<Value> {
        let events = self.events().into_iter();
        events.filter(|event| event["type"] == kind).collect()
    }
    pub fn summary(&self) -> Value {
        self.events().pop().expect("a summary")
    }

    /// Checks that the run succeeded.
    pub fn ok(&self) -> &Ran {
        assert_eq!(self.code(), Some(0), "{}{}", self.text(), self.stderr);
        assert_eq!(self.summary()["ok"], true);
        self
    }

    /// The error of a failed run, after checking the rules for every failure.
    pub fn refused(&self, code: i32, category: &str, name: &str) -> Value {
        assert_eq!(self.code(), Some(code), "{}{}", self.text(), self.stderr);
        assert_eq!(self.summary()["ok"], false);
        let errors = self.of("aoi:error");
        let [error] = errors.as_slice() else {
            panic!("expected exactly one error: {}", self.text());
        };
        assert_eq!(
            (&error["category"], &error["code"]),
            (&category.into(), &name.into())
        );
        assert!(!error["message"].as_str().expect("a message").is_empty());
        assert!(error["retryable"].is_boolean());
        error.clone()
    }
}

/// Reads one line, sends a signal, and reads the rest.
pub fn interrupted(ground: &Ground, args: &[&str], signal: i32) -> Ran {
    let mut child = ground.command(args).spawn().expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut bytes = Vec::new();
    stdout.read_until(b'\n', &mut bytes).expect("a line");
    send(&child, signal);
    stdout.read_to_end(&mut bytes).expect("the rest");
    let mut stderr = String::new();
    let mut pipe = child.stderr.take().expect("a pipe");
    pipe.read_to_string(&mut stderr).expect("text");
    Ran {
        stdout: bytes,
        stderr,
        status: child.wait().expect("it ends"),
    }
}

pub fn send(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).expect("a process id");
    // SAFETY: the process is our child and has not been waited for.
    unsafe {
        libc::kill(pid, signal);
    }
}

/// Whether the process exits within the given time.
pub fn ends_within(child: &mut Child, time: Duration) -> bool {
    let begun = Instant::now();
    loop {
        if child.try_wait().expect("it can be asked").is_some() {
            return true;
        }
        if begun.elapsed() > time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
