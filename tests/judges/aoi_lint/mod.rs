//! `agentproto aoi-lint`: the command line, the probe file, the reports, and targets that
//! misbehave.
//!
//! `INSTA_UPDATE=always` updates the snapshots, `UPDATE_DOCS=1` writes docs/aoi-rules.md.

mod bad_targets;
mod commands;
mod formats;
mod probe_files;
mod sample;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn binary() -> PathBuf {
    assert_cmd::cargo::cargo_bin("agentproto")
}

/// Exit code and output of a finished run.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        self
    }
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}:\n{}{}", self.out, self.err))
    }
    fn events(&self) -> Vec<Value> {
        events(&self.out)
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

fn events(text: &str) -> Vec<Value> {
    let line = |l: &str| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"));
    text.lines().map(line).collect()
}

/// A directory with scripts and its own directory for temporary files, which must be empty after
/// every run.
struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("tmp")).expect("created");
        Dir(dir)
    }

    /// A directory with the demo tools of the guide.
    fn demo() -> Self {
        let dir = Dir::new();
        for entry in std::fs::read_dir(repository().join("fixtures/demo/aoi")).expect("fixtures") {
            let path = entry.expect("an entry").path();
            std::fs::copy(&path, dir.at(path.file_name().expect("a name"))).expect("copied");
        }
        dir
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
    fn at(&self, file: impl AsRef<Path>) -> PathBuf {
        self.path().join(file)
    }
    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.at(file), text).expect("written");
    }
    fn script(&self, file: &str, body: &str) {
        self.write(file, &format!("#!/bin/sh\n{body}\n"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.at(file), mode).expect("made a program");
    }

    fn command(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::new(binary());
        command
            .current_dir(self.path())
            .env("TMPDIR", self.at("tmp"))
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .env_remove("COLUMNS")
            .timeout(Duration::from_secs(120))
            .args(args);
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> Ran {
        let ran: Ran = self.command(args).output().expect("it runs").into();
        self.is_tidy();
        ran
    }

    #[track_caller]
    fn lint(&self, args: &[&str]) -> Ran {
        self.run(&[&["aoi-lint"], args].concat())
    }

    /// Checks that no temporary file is left.
    #[track_caller]
    fn is_tidy(&self) {
        let left = std::fs::read_dir(self.at("tmp")).expect("a directory");
        let left: Vec<_> = left.flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

fn schema(name: &str) -> jsonschema::Validator {
    let path = repository().join("schemas").join(name);
    let text = std::fs::read_to_string(path).expect("a schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
    jsonschema::validator_for(&schema).expect("a JSON Schema")
}

#[track_caller]
fn assert_valid(validator: &jsonschema::Validator, value: &Value) {
    let errors: Vec<_> = validator
        .iter_errors(value)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}\n{value:#}", errors.join("\n"));
}

/// The verdict of a rule for a command, from a JSON report.
#[track_caller]
fn verdict<'r>(report: &'r Value, rule: &str, command: &str) -> &'r str {
    let rows = report["checks"].as_array().expect("rows");
    let row = rows
        .iter()
        .find(|row| row["rule"] == rule && row["command"] == command)
        .unwrap_or_else(|| panic!("no row {rule} of {command}: {report:#}"));
    row["verdict"].as_str().expect("a verdict")
}
