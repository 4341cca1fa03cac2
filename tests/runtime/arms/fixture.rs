//! Shared test setup: a bundle with a shell script as its agent, and a turn with its events.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use agentproto_runtime::arm::permissions::{PermissionBroker, Permissions};
use agentproto_runtime::arm::{Arm, EventSink, LaunchSpec, OpenRequest};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::{Context, ContextOptions, Sandboxing};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::Headless;
use agentproto_runtime::observe::{Observer, Stage};
use agentproto_runtime::{Error, StopReason, StreamEvent};
use agentproto_sandbox::helper;
use tokio::sync::mpsc;

/// Collects warnings.
#[derive(Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    pub fn warnings(&self) -> Vec<String> {
        self.0.lock().expect("warnings").clone()
    }
}

impl Observer for Warnings {
    fn stage(&self, _: Stage, _: &str) {}
    fn progress(&self, _: Stage, _: &str) {}
    fn warning(&self, code: &str, message: &str) {
        let mut all = self.0.lock().expect("warnings");
        all.push(format!("{code}: {message}"));
    }
}

pub struct AgentFixture {
    dir: tempfile::TempDir,
    pub observer: Arc<Warnings>,
    pub broker: PermissionBroker,
    sandboxing: Sandboxing,
    arm_fields: String,
    path_variable: OsString,
    yes: bool,
}

impl AgentFixture {
    /// A bundle whose agent is a script. `fields` are added to the manifest.
    pub fn new(script: &str, fields: &str) -> AgentFixture {
        helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
        let dir = tempfile::tempdir().expect("a directory");
        let fixture = AgentFixture {
            dir,
            observer: Arc::default(),
            broker: PermissionBroker::new(Permissions::Deny),
            sandboxing: Sandboxing::Off,
            arm_fields: fields.to_owned(),
            path_variable: std::env::var_os("PATH").unwrap_or_default(),
            yes: false,
        };
        fixture.write("bundle/agent.sh", script);
        fixture
    }

    pub fn with_permissions(mut self, permissions: Permissions) -> AgentFixture {
        self.broker = PermissionBroker::new(permissions);
        self
    }

    pub fn sandboxed(mut self) -> AgentFixture {
        self.sandboxing = Sandboxing::Auto;
        self
    }

    /// Sets the only directory in which programs are searched.
    pub fn with_programs(mut self, dir: &str) -> AgentFixture {
        self.path_variable = self.path(dir).into();
        self
    }

    pub fn confirmed(mut self) -> AgentFixture {
        self.yes = true;
        self
    }

    /// Writes a program as a shell script.
    pub fn program(&self, name: &str, script: &str) {
        let path = self.write(name, &format!("#!/bin/sh\n{script}\n"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("a program");
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, text).expect("written");
        path
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn context(&self) -> Arc<Context> {
        let manifest = format!(
            "---\nname: fake\nid: fake\ndescription: A fake agent.\nversion: 1.0.0\nbin: sh\n\
             install: [{{ method: brew, package: fake }}]\n\
             version_check: {{ cmd: sh --version, parse: '(.*)', range: '*' }}\n\
             sandbox: {{ provider: local, config: {{}}, network: {{ egress: [] }} }}\n{}---\n",
            self.arm_fields
        );
        let path = self.write("bundle/AGENT-CLI.md", &manifest);
        self.context_of(Bundle::load(&path).expect("a bundle"))
    }

    /// One of the bundles embedded in the binary.
    pub fn mock(&self, name: &str) -> Arc<Context> {
        let home = Home::new(self.path("home"));
        self.context_of(Bundle::discover(name, &[], &home).expect("a mock"))
    }

    fn context_of(&self, bundle: Bundle) -> Arc<Context> {
        let cwd = self.path("work");
        std::fs::create_dir_all(&cwd).expect("made");
        let host_env: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), self.path_variable.clone()),
            ("HOME".into(), self.path("user").into()),
        ];
        let setting = ContextOptions {
            home: Home::new(self.path("home")),
            cwd,
            host_env: std::sync::Arc::new(host_env),
            sandboxing: self.sandboxing,
            sandbox: Default::default(),
            yes: self.yes,
            observer: Arc::clone(&self.observer) as Arc<dyn Observer>,
            interact: Arc::new(Headless),
        };
        Arc::new(Context::new(bundle, setting).expect("a context"))
    }

    pub fn spec(&self, args: &[&str]) -> LaunchSpec {
        let script = self.path("bundle/agent.sh").into();
        let args = args.iter().map(OsString::from);
        LaunchSpec {
            argv: ["/bin/sh".into(), script].into_iter().chain(args).collect(),
            env: Vec::new(),
        }
    }

    /// Content of a file in the agent's working directory.
    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.path("work").join(name)).unwrap_or_default()
    }
}

pub fn open(resume: Option<&str>) -> OpenRequest {
    OpenRequest {
        resume: resume.map(str::to_owned),
    }
}

pub async fn ready(arm: &dyn Arm, resume: Option<&str>) -> String {
    arm.handshake().await.expect("a handshake");
    let opened = arm.open(&open(resume)).await;
    opened.expect("a session")
}

/// Runs one turn to its end.
pub async fn turn(
    arm: &dyn Arm,
    context: &Context,
    prompt: &str,
) -> (Vec<StreamEvent>, Result<StopReason, Error>) {
    turn_with_events(arm, context, prompt, |_| async {}).await
}

/// Runs one turn and calls `seen` for every event.
pub async fn turn_with_events<F: Future<Output = ()>>(
    arm: &dyn Arm,
    context: &Context,
    prompt: &str,
    seen: impl Fn(StreamEvent) -> F,
) -> (Vec<StreamEvent>, Result<StopReason, Error>) {
    let (sink, mut events) = mpsc::channel(8);
    let events_in = EventSink::new(sink, Arc::clone(&context.audit));
    let playing = arm.turn(prompt, events_in);
    let reading = async {
        let mut all = Vec::new();
        while let Some(event) = events.recv().await {
            seen(event.clone()).await;
            all.push(event);
        }
        all
    };
    let (end, all) = tokio::join!(playing, reading);
    (all, end)
}

pub fn text(text: &str) -> StreamEvent {
    StreamEvent::TextDelta { text: text.into() }
}

pub fn thought(text: &str) -> StreamEvent {
    StreamEvent::thought(text)
}
