//! agentproto as an AOI-CLI v0.2 tool. Its own linter checks every pair; these tests cover what the
//! linter cannot see.

mod declared;
pub mod host;
mod keys;
mod lists;
mod serve;
mod streams;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

pub const BINARY: &str = env!("CARGO_BIN_EXE_agentproto");

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/aoi/agentproto")
}

/// A separate home directory.
pub struct Place(pub tempfile::TempDir);

pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn events(&self) -> Vec<Value> {
        let event = |line: &str| serde_json::from_str(line).expect("an event");
        self.out.lines().map(event).collect()
    }

    pub fn summary(&self) -> Value {
        let events = self.events();
        let is_summary = |event: &&Value| event["type"] == "aoi:summary";
        assert_eq!(events.iter().filter(is_summary).count(), 1, "{}", self.out);
        assert_eq!(events[0]["type"], "aoi:meta", "{}", self.out);
        let last = events.last().expect("events").clone();
        assert_eq!(last["type"], "aoi:summary", "{}", self.out);
        last
    }

    pub fn error(&self) -> Value {
        let events = self.events();
        let error = events.iter().find(|event| event["type"] == "aoi:error");
        error
            .unwrap_or_else(|| panic!("no error: {}", self.out))
            .clone()
    }
}

impl Default for Place {
    fn default() -> Self {
        Place::new()
    }
}

impl Place {
    pub fn new() -> Self {
        Place(tempfile::tempdir().expect("a directory"))
    }

    pub fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut path = std::ffi::OsString::from(fixtures().join("bin"));
        path.push(":/usr/local/bin:/usr/bin:/bin");
        let mut command = Command::new(BINARY);
        command
            .args(words)
            .current_dir(self.0.path())
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.0.path())
            .env("AGENTPROTO_HOME", self.state())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, words: &[&str], input: &str) -> Ran {
        let mut child = self.command(words).spawn().expect("started");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A process that does not read stdin may have exited already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("ended");
        Ran {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}
