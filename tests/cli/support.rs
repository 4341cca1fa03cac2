//! A temporary directory, and the binary running in it.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;

pub struct Dir(tempfile::TempDir);

/// Exit code and output of a finished run.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}:\n{}", self.out))
    }
    pub fn lines(&self) -> Vec<Value> {
        let line = |l: &str| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"));
        self.out.lines().map(line).collect()
    }
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!err.contains("panicked"), "{err}");
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err,
        }
    }
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

impl Dir {
    pub fn new() -> Self {
        Dir(tempfile::tempdir().expect("a directory"))
    }

    /// A directory with the good demo bundle, which has no findings.
    pub fn heron() -> Self {
        let dir = Dir::new();
        dir.bundle("heron");
        dir
    }

    /// A directory with the good demo bundle and two mistakes: one for each kind of fix.
    pub fn flawed() -> Self {
        let dir = Dir::heron();
        dir.replace("heron/AGENT-CLI.md", "os: [darwin", "os: [macos");
        dir.replace(
            "heron/AGENT-CLI.md",
            "tags: [coding,",
            "tags: [coding, coding,",
        );
        dir
    }

    /// Copies the good demo bundle to a place in the directory.
    pub fn bundle(&self, to: &str) {
        let from = fixtures().join("demo/good/heron");
        for entry in std::fs::read_dir(from).expect("fixtures") {
            let entry = entry.expect("an entry");
            let text = std::fs::read_to_string(entry.path()).expect("text");
            self.write(
                &format!("{to}/{}", entry.file_name().to_string_lossy()),
                &text,
            );
        }
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
    pub fn at(&self, file: &str) -> PathBuf {
        self.path().join(file)
    }
    pub fn write(&self, file: &str, text: &str) {
        let path = self.at(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        std::fs::write(path, text).expect("written");
    }
    pub fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.at(file)).expect("readable")
    }
    #[track_caller]
    pub fn replace(&self, file: &str, old: &str, new: &str) {
        let text = self.read(file);
        assert_eq!(text.matches(old).count(), 1, "{file}: {old:?}");
        self.write(file, &text.replace(old, new));
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::cargo_bin("agentproto").expect("the binary");
        command
            .current_dir(self.path())
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .env_remove("COLUMNS")
            .timeout(Duration::from_secs(60))
            .args(args);
        command
    }
    pub fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().expect("it runs").into()
    }
    pub fn lint(&self, args: &[&str]) -> Ran {
        self.run(&[&["lint"], args].concat())
    }
    /// `rule@file` of each finding that is not suppressed, in the order of the report.
    #[track_caller]
    pub fn found(&self, args: &[&str]) -> Vec<String> {
        let ran = self.lint(&[args, &["--output", "json"]].concat());
        assert!(matches!(ran.code, 0 | 1), "{}", ran.err);
        let findings = ran.json()["findings"].as_array().expect("findings").clone();
        findings
            .iter()
            .filter(|f| f.get("suppressed").is_none())
            .map(|f| format!("{}@{}", text(&f["rule"]), text(&f["file"])))
            .collect()
    }
}

pub fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

/// The findings in `Dir::flawed`.
pub const FLAWS: [&str; 2] = [
    "requires-os-enum@heron/AGENT-CLI.md",
    "tags-unique@heron/AGENT-CLI.md",
];
