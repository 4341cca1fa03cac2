//! Shared test setup: a bundle with a shell script as its agent, and a turn with its events.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use agentproto_runtime::arm::desk::{Desk, Permissions};
use agentproto_runtime::arm::{Arm, Events, Open, Spec};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::{Context, Sandboxing, Setting};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::Headless;
use agentproto_runtime::observe::{Observer, Stage};
use agentproto_runtime::{Fault, StopReason, StreamEvent};
use agentproto_sandbox::helper;
use tokio::sync::mpsc;

/// Collects warnings.
#[derive(Default)]
pub struct Ear(Mutex<Vec<String>>);

impl Ear {
    pub fn warnings(&self) -> Vec<String> {
        self.0.lock().expect("warnings").clone()
    }
}

impl Observer for Ear {
    fn stage(&self, _: Stage, _: &str) {}
    fn progress(&self, _: Stage, _: &str) {}
    fn warning(&self, code: &str, message: &str) {
        let mut all = self.0.lock().expect("warnings");
        all.push(format!("{code}: {message}"));
    }
}

pub struct Stand {
    dir: tempfile::TempDir,
    pub ear: Arc<Ear>,
    pub desk: Desk,
    sandboxing: Sandboxing,
    arm_fields: String,
    path_variable: OsString,
    yes: bool,
}

impl Stand {
    /// A bundle whose agent is a script. `fields` are added to the manifest.
    pub fn new(script: &str, fields: &str) -> Stand {
        helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
        let dir = tempfile::tempdir().expect("a directory");
        let stand = Stand {
            dir,
            ear: Arc::default(),
            desk: Desk::new(Permissions::Deny),
            sandboxing: Sandboxing::Off,
            arm_fields: fields.to_owned(),
            path_variable: std::env::var_os("PATH").unwrap_or_default(),
            yes: false,
        };
        stand.write("bundle/agent.sh", script);
        stand
    }

    pub fn asking(mut self, permissions: Permissions) -> Stand {
        self.desk = Desk::new(permissions);
        self
    }

    pub fn sandboxed(mut self) -> Stand {
        self.sandboxing = Sandboxing::Auto;
        self
    }

    /// Sets the only directory in which programs are searched.
    pub fn with_programs(mut self, dir: &str) -> Stand {
        self.path_variable = self.path(dir).into();
        self
    }

    pub fn agreed(mut self) -> Stand {
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
        let setting = Setting {
            home: Home::new(self.path("home")),
            cwd,
            host_env: std::sync::Arc::new(host_env),
            sandboxing: self.sandboxing,
            yes: self.yes,
            observer: Arc::clone(&self.ear) as Arc<dyn Observer>,
            interact: Arc::new(Headless),
        };
        Arc::new(Context::new(bundle, setting).expect("a context"))
    }

    pub fn spec(&self, args: &[&str]) -> Spec {
        let script = self.path("bundle/agent.sh").into();
        let args = args.iter().map(OsString::from);
        Spec {
            argv: ["/bin/sh".into(), script].into_iter().chain(args).collect(),
            env: Vec::new(),
        }
    }

    /// Content of a file in the agent's working directory.
    pub fn noted(&self, name: &str) -> String {
        std::fs::read_to_string(self.path("work").join(name)).unwrap_or_default()
    }
}

pub fn open(resume: Option<&str>) -> Open {
    Open {
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
) -> (Vec<StreamEvent>, Result<StopReason, Fault>) {
    watched(arm, context, prompt, |_| async {}).await
}

/// Runs one turn and calls `seen` for every event.
pub async fn watched<F: Future<Output = ()>>(
    arm: &dyn Arm,
    context: &Context,
    prompt: &str,
    seen: impl Fn(StreamEvent) -> F,
) -> (Vec<StreamEvent>, Result<StopReason, Fault>) {
    let (sink, mut events) = mpsc::channel(8);
    let events_in = Events::new(sink, Arc::clone(&context.audit));
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
    StreamEvent::Thought { text: text.into() }
}
