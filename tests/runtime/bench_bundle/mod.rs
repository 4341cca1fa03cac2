//! Shared setup for the tests of setup, login and secrets: a bundle with a tool that records its
//! arguments, and a user with scripted answers.
#![allow(dead_code)]

pub mod pty;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::{Context, ContextOptions, Sandboxing};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::{AnswerFuture, Headless, Interact, Question};
use agentproto_runtime::observe::{Observer, Stage};
use agentproto_runtime::{Code, Error};
use agentproto_sandbox::helper;

/// Writes files in the workspace: `log` with its own arguments, and `spied` with the arguments of
/// every process that it can see.
const TOOL: &str = r#"#!/bin/sh
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' ' ' >> spied
verb=$1; shift
case "$verb" in
  log) echo "$*" >> log ;;
  args) for a in "$@"; do printf '<%s>' "$a" >> log; done; echo >> log ;;
  env) for n in "$@"; do echo "$n=$(printenv "$n")" >> log; done ;;
  stdin) echo "stdin=$(cat)" >> log ;;
  print) for a in "$@"; do printf '%b\n' "$a"; done ;;
  fail) echo "it broke: $*" >&2; exit 7 ;;
  exit) exit "$1" ;;
  has) test -e "$1" ;;
  hang) sleep 600 ;;
  *) echo "unknown $verb" >&2; exit 64 ;;
esac
"#;

const ACP: &str = "---
name: probe-acp
id: probe-acp
description: The ACP server of the bundle for tests.
version: 1.0.0
kind: server
transport: stdio
metadata:
  aip44:
    acp_rev: c9e4e99a2cfdd951cdc3c2ce7d4173ca7ff21c5a
    tier: basic
---
";

pub struct Bench {
    pub dir: tempfile::TempDir,
    pub env: Vec<(OsString, OsString)>,
    pub yes: bool,
    pub heard: Arc<Heard>,
}

/// Collects the messages to an observer.
#[derive(Default)]
pub struct Heard(pub Mutex<Vec<String>>);

impl Observer for Heard {
    fn stage(&self, stage: Stage, detail: &str) {
        self.add(format!("{}: {detail}", stage.as_str()));
    }
    fn progress(&self, _: Stage, text: &str) {
        self.add(text.to_owned());
    }
    fn warning(&self, code: &str, message: &str) {
        self.add(format!("{code}: {message}"));
    }
}

impl Heard {
    fn add(&self, text: String) {
        self.0.lock().expect("a list").push(text);
    }
    pub fn text(&self) -> String {
        self.0.lock().expect("a list").join("\n")
    }
}

impl Bench {
    /// A bundle whose manifest ends with these blocks.
    pub fn new(blocks: &str) -> Bench {
        helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["bundle", "work", "user"] {
            fs::create_dir(dir.path().join(name)).expect("made");
        }
        let bench = Bench {
            env: vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("HOME".into(), dir.path().join("user").into()),
            ],
            dir,
            yes: false,
            heard: Arc::default(),
        };
        bench.write("bundle/tool", TOOL);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(bench.bin(), mode).expect("executable");
        bench.write("bundle/ACP.md", ACP);
        bench.manifest(blocks);
        bench
    }

    /// Rewrites the manifest.
    pub fn manifest(&self, blocks: &str) {
        self.write("bundle/AGENT-CLI.md", &manifest(blocks));
    }

    pub fn write(&self, path: &str, text: &str) {
        fs::write(self.at(path), text).expect("written");
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn bin(&self) -> PathBuf {
        self.at("bundle/tool")
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.env.push((name.into(), value.into()));
    }

    /// A context without a user.
    pub fn alone(&self) -> Context {
        self.with(Arc::new(Headless))
    }

    pub fn with(&self, interact: Arc<dyn Interact>) -> Context {
        let bundle = Bundle::load(&self.at("bundle/AGENT-CLI.md")).expect("a bundle");
        self.context(bundle, interact)
    }

    pub fn context(&self, bundle: Bundle, interact: Arc<dyn Interact>) -> Context {
        let setting = ContextOptions {
            home: Home::new(self.at("home")),
            cwd: self.at("work"),
            host_env: std::sync::Arc::new(self.env.clone()),
            sandboxing: Sandboxing::Auto,
            sandbox: Default::default(),
            yes: self.yes,
            observer: self.heard.clone(),
            interact,
        };
        Context::new(bundle, setting).expect("a context")
    }

    /// The arguments that the tool recorded.
    pub fn log(&self) -> String {
        fs::read_to_string(self.at("work/log")).unwrap_or_default()
    }

    /// The bytes of all files under a directory.
    pub fn bytes(&self, below: &str) -> Vec<u8> {
        let mut out = Vec::new();
        collect(&self.at(below), &mut out);
        out
    }

    /// Checks that a secret is in no state file, audit log, message or process argument.
    #[track_caller]
    pub fn nowhere(&self, canary: &str) {
        let finds = |bytes: &[u8]| bytes.windows(canary.len()).any(|w| w == canary.as_bytes());
        assert!(!finds(&self.bytes("home")), "the state contains the secret");
        assert!(
            !finds(self.heard.text().as_bytes()),
            "a message contains the secret"
        );
        let spied = fs::read(self.at("work/spied")).unwrap_or_default();
        assert!(!finds(&spied), "a process argument contains the secret");
    }

    /// The lines of the audit log.
    pub fn audit(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.at("home/audit/audit-log.jsonl")).unwrap_or_default();
        let line = |line: &str| serde_json::from_str(line).expect("JSON");
        text.lines().map(line).collect()
    }

    /// The data of the audit events with this name.
    pub fn audited(&self, event: &str) -> Vec<serde_json::Value> {
        let all = self.audit().into_iter().filter(|e| e["event"] == event);
        all.map(|e| e["data"].clone()).collect()
    }

    /// The binary, with the home directory of this bundle.
    pub fn command(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_agentproto"));
        command
            .args(args)
            .current_dir(self.at("work"))
            .env_clear()
            .envs(self.env.iter().cloned())
            .env("AGENTPROTO_HOME", self.at("home"));
        command
    }
}

pub fn manifest(blocks: &str) -> String {
    format!(
        "---\nname: probe\nid: probe\nversion: 1.2.0\n\
         description: A bundle for tests.\nbin: tool\n\
         install:\n  - {{ method: vendored, path: ./tool }}\n\
         version_check: {{ cmd: \"tool print 1.0.0\", parse: '(\\d+\\.\\d+\\.\\d+)', range: '*' }}\n\
         protocol: acp\nacp: ./ACP.md\n\
         sandbox: {{ provider: local, config: {{}} }}\n{blocks}\n---\n\n# probe\n"
    )
}

fn collect(path: &Path, out: &mut Vec<u8>) {
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten() {
            collect(&entry.path(), out);
        }
    } else {
        out.extend(fs::read(path).unwrap_or_default());
    }
}

/// The events of machine-mode output. Each must match the schema, and the first and last event must
/// be present.
#[track_caller]
pub fn events(bytes: &[u8]) -> Vec<serde_json::Value> {
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/events.schema.json");
    let schema = fs::read(schema).expect("a schema");
    let schema = serde_json::from_slice(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for line in &lines {
        assert!(validator.is_valid(line), "{line}");
    }
    assert_eq!(lines.first().expect("lines")["type"], "aoi:meta");
    assert_eq!(lines.last().expect("lines")["type"], "aoi:summary");
    lines
}

type Hook = Box<dyn Fn(&str) + Send + Sync>;

/// A user who answers from a list and reacts to what is shown.
pub struct Person {
    answers: Mutex<VecDeque<String>>,
    pub asked: Mutex<Vec<Question>>,
    pub shown: Mutex<Vec<String>>,
    hook: Hook,
}

impl Person {
    pub fn answering(answers: &[&str]) -> Arc<Person> {
        Person::acting(answers, |_| {})
    }

    pub fn acting(answers: &[&str], hook: impl Fn(&str) + Send + Sync + 'static) -> Arc<Person> {
        Arc::new(Person {
            answers: Mutex::new(answers.iter().map(|a| (*a).to_owned()).collect()),
            asked: Mutex::default(),
            shown: Mutex::default(),
            hook: Box::new(hook),
        })
    }

    pub fn questions(&self) -> usize {
        self.asked.lock().expect("a list").len()
    }
}

impl Interact for Person {
    fn is_headless(&self) -> bool {
        false
    }

    fn ask<'a>(&'a self, question: &'a Question) -> AnswerFuture<'a> {
        self.asked.lock().expect("a list").push(question.clone());
        let answer = self.answers.lock().expect("a list").pop_front();
        let answer = answer.ok_or_else(|| Error::new(Code::Declined, "no scripted answer is left"));
        Box::pin(std::future::ready(answer))
    }

    fn show(&self, text: &str) {
        self.shown.lock().expect("a list").push(text.to_owned());
        (self.hook)(text);
    }
}

/// Sends one HTTP request with these header lines. Returns the status code.
pub fn request(port: u16, line: &str, headers: &[&str]) -> u16 {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let mut text = format!("{line}\r\n");
    for header in headers {
        text.push_str(&format!("{header}\r\n"));
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes()).expect("sent");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let code = answer.split(' ').nth(1).and_then(|c| c.parse().ok());
    code.unwrap_or(0)
}

/// Port and path of a loopback URL.
pub fn parts(url: &str) -> (u16, String) {
    let rest = url
        .strip_prefix("http://127.0.0.1:")
        .expect("a loopback URL");
    let (port, path) = rest.split_once('/').expect("a path");
    (port.parse().expect("a port"), format!("/{path}"))
}
