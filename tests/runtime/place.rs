//! A separate home directory, workspace and runner for each test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use agentproto_runtime::agent::{Agent, AgentOptions};
use agentproto_runtime::arm::permissions::Permissions;
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::{Context, ContextOptions, Sandboxing};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::Headless;
use agentproto_runtime::observe::{Observer, Stage};
use agentproto_runtime::{Error, StreamEvent};
use agentproto_sandbox::helper;
use serde_json::Value;

pub const BINARY: &str = env!("CARGO_BIN_EXE_agentproto");

pub struct Place {
    dir: tempfile::TempDir,
}

/// Exit code and output of a finished run.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn new(output: Output) -> Self {
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn lines(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines
            .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}")))
            .collect()
    }

    /// Events of one type.
    pub fn of(&self, kind: &str) -> Vec<Value> {
        let mut lines = self.lines();
        lines.retain(|line| line["type"] == kind);
        lines
    }

    pub fn text(&self) -> String {
        let deltas = self.of("text-delta");
        deltas.iter().filter_map(|e| e["text"].as_str()).collect()
    }

    /// Code and message of the only error.
    pub fn error(&self) -> (String, String) {
        let errors = self.of("aoi:error");
        assert_eq!(errors.len(), 1, "{}\n{}", self.stdout, self.stderr);
        let text = |key: &str| errors[0][key].as_str().unwrap_or_default().to_owned();
        (text("code"), text("message"))
    }
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["home", "work", "user", "bundles"] {
            std::fs::create_dir(dir.path().join(name)).expect("made");
        }
        Place { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `HOME` of every child process, by which the tests find them.
    pub fn user(&self) -> PathBuf {
        self.path("user").canonicalize().expect("there")
    }

    /// `agentproto …` in this place.
    pub fn command(&self, args: &[&str]) -> Command {
        let bin = Path::new(BINARY).parent().expect("a directory");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(BINARY);
        command
            .args(args)
            .current_dir(self.path("work"))
            .env("AGENTPROTO_HOME", self.path("home"))
            .env("HOME", self.user())
            .env("PATH", format!("{}:{path}", bin.display()))
            .stdin(Stdio::null());
        command
    }

    /// `agentproto run TARGET --output jsonl …`.
    pub fn run(&self, target: &str, args: &[&str]) -> Ran {
        let all = [&["run", target, "--output", "jsonl"], args].concat();
        Ran::new(self.command(&all).output().expect("started"))
    }

    /// Runs with text output.
    pub fn text(&self, target: &str, args: &[&str]) -> Ran {
        let all = [&["run", target], args].concat();
        Ran::new(self.command(&all).output().expect("started"))
    }

    /// A copy of the mock agent's bundle with one file changed. Returns its directory.
    pub fn changed(&self, name: &str, file: &str, change: impl Fn(String) -> String) -> PathBuf {
        let dir = self.path("bundles").join(name);
        std::fs::create_dir_all(&dir).expect("made");
        let bundles = agentproto_mock_agents::bundles();
        let bundle = bundles
            .iter()
            .find(|b| b.name == "mock-acp")
            .expect("there");
        for (path, bytes, _) in bundle.files {
            let mut text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
            if *path == "AGENT-CLI.md" {
                text = text.replace("name: mock-acp", &format!("name: {name}"));
            }
            if *path == file {
                let before = text.clone();
                text = change(text);
                assert_ne!(text, before, "the replacement changed nothing");
            }
            std::fs::write(dir.join(path), text).expect("written");
        }
        dir
    }

    pub fn audit(&self) -> String {
        std::fs::read_to_string(self.path("home/audit/audit-log.jsonl")).unwrap_or_default()
    }

    /// Loads an agent through the library.
    pub fn agent(&self, target: &str, options: AgentOptions) -> Result<(Agent, Arc<Watch>), Error> {
        helper::use_binary(BINARY);
        let home = Home::new(self.path("home"));
        let bundle = Bundle::discover(target, &[], &home)?;
        let watch = Arc::new(Watch::default());
        let bin = Path::new(BINARY).parent().expect("a directory");
        let path = std::env::var("PATH").unwrap_or_default();
        let setting = ContextOptions {
            home,
            cwd: self.path("work"),
            host_env: Arc::new(vec![
                ("HOME".into(), self.user().into()),
                ("PATH".into(), format!("{}:{path}", bin.display()).into()),
            ]),
            sandboxing: Sandboxing::Auto,
            sandbox: Default::default(),
            yes: true,
            observer: watch.clone(),
            interact: Arc::new(Headless),
        };
        let agent = Agent::load(Context::new(bundle, setting)?, options)?;
        Ok((agent, watch))
    }

    /// Live processes of this place.
    pub fn alive(&self) -> Vec<String> {
        let mark = format!("HOME={}", self.user().display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("proc").flatten() {
            let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if environ.split(|b| *b == 0).any(|v| v == mark.as_bytes()) {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push(String::from_utf8_lossy(&line).replace('\0', " "));
            }
        }
        found
    }

    /// Waits until no process is left. Returns those that remain after a generous time.
    pub fn survivors(&self) -> Vec<String> {
        for _ in 0..200 {
            if self.alive().is_empty() {
                return Vec::new();
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        self.alive()
    }
}

/// Records what it observes.
#[derive(Default)]
pub struct Watch {
    pub stages: Mutex<Vec<Stage>>,
    pub warnings: Mutex<Vec<String>>,
}

impl Watch {
    pub fn warned(&self, code: &str) -> bool {
        self.warnings
            .lock()
            .expect("no panic")
            .iter()
            .any(|w| w == code)
    }
}

impl Observer for Watch {
    fn stage(&self, stage: Stage, _: &str) {
        self.stages.lock().expect("no panic").push(stage);
    }

    fn progress(&self, _: Stage, _: &str) {}

    fn warning(&self, code: &str, _: &str) {
        self.warnings
            .lock()
            .expect("no panic")
            .push(code.to_owned());
    }
}

pub fn allowing() -> AgentOptions {
    AgentOptions {
        permissions: Permissions::Allow,
        ..AgentOptions::default()
    }
}

pub fn with_option(id: &str, value: &str) -> AgentOptions {
    let mut options = allowing();
    let given = agentproto_runtime::choices::OptionValue::Text(value.to_owned());
    options.choices.options.push((id.to_owned(), given));
    options
}

/// All events of a turn, and its text.
pub async fn collect(turn: &mut agentproto_runtime::session::Turn) -> (String, Vec<StreamEvent>) {
    let (mut text, mut events) = (String::new(), Vec::new());
    while let Some(event) = turn.next().await {
        if let StreamEvent::TextDelta { text: more } = &event {
            text.push_str(more);
        }
        events.push(event);
    }
    (text, events)
}
