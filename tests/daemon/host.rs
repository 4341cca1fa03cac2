//! A separate registry for each test, in the test process.

use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use agentproto_daemon::model::Principal;
use agentproto_daemon::ring::{FollowFrom, Follower};
use agentproto_daemon::{
    ApiError, HostConfig, Registry, SessionRecord, SessionStatus, SpawnRequest,
};
use agentproto_runtime::home::Home;
use agentproto_sandbox::helper;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Time limit that only a hang reaches.
const HANG: Duration = Duration::from_secs(60);

pub struct Host {
    pub dir: TempDir,
    pub registry: Registry,
    pub warnings: Vec<String>,
}

impl Host {
    pub fn new() -> Host {
        Host::in_dir(TempDir::new().expect("a directory"))
    }

    /// Opens the state that an earlier host left in this directory.
    pub fn in_dir(dir: TempDir) -> Host {
        Host::with(dir, |_| {})
    }

    /// The same, with a changed configuration.
    pub fn with(dir: TempDir, change: impl FnOnce(&mut HostConfig)) -> Host {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| helper::use_binary(env!("CARGO_BIN_EXE_agentproto")));
        std::fs::create_dir_all(dir.path().join("work")).expect("made");
        let mut config = config(dir.path());
        change(&mut config);
        let (registry, warnings) = Registry::open(config).expect("opened");
        Host {
            dir,
            registry,
            warnings,
        }
    }

    pub fn request(&self, adapter: &str) -> SpawnRequest {
        SpawnRequest {
            adapter: adapter.to_owned(),
            cwd: Some(self.dir.path().join("work").to_string_lossy().into_owned()),
            ..SpawnRequest::default()
        }
    }

    pub async fn spawn(&self, request: SpawnRequest) -> Result<SessionRecord, ApiError> {
        self.registry.spawn(request, Principal::Local).await
    }

    /// Adds an adapter `keyed`: the mock agent with this secret in `MOCK_KEY`.
    pub fn with_secret(&mut self, secret: &str) {
        adapter(self.dir.path(), "keyed", |text| {
            text.replace(
                "sandbox: ./SANDBOX.md",
                "sandbox: ./SANDBOX.md\nauth:\n  state:\n    env: [MOCK_KEY]",
            )
        });
        let mut config = config(self.dir.path());
        config.host_env.push(("MOCK_KEY".into(), secret.into()));
        (self.registry, self.warnings) = Registry::open(config).expect("opened");
    }

    /// A running session of the mock agent with one of its scenarios.
    pub async fn running(&self, scenario: &str) -> SessionRecord {
        let mut request = self.request("mock-acp");
        let options = [("scenario".to_owned(), json!(scenario))];
        request.options = Some(options.into_iter().collect());
        let session = self.spawn(request).await.expect("spawned");
        self.until(&session.id, |s| s.status != SessionStatus::Starting)
            .await
    }

    /// Follows the session's events until its record satisfies `wanted`.
    pub async fn until(&self, id: &str, wanted: impl Fn(&SessionRecord) -> bool) -> SessionRecord {
        let mut events = self
            .registry
            .follow(id, FollowFrom::Start)
            .await
            .expect("there");
        let waiting = async {
            loop {
                let now = self.registry.get(id).expect("there");
                if wanted(&now) {
                    return now;
                }
                if events.next().await.is_none() {
                    let now = self.registry.get(id).expect("there");
                    assert!(wanted(&now), "the session ended as {now:?}");
                    return now;
                }
            }
        };
        tokio::time::timeout(HANG, waiting).await.expect("in time")
    }

    /// Runs one whole turn. Returns the session after it.
    pub async fn turn(&self, id: &str, prompt: &str) -> SessionRecord {
        self.registry
            .prompt(id, prompt.to_owned())
            .await
            .expect("taken");
        self.until(id, |s| !s.busy).await
    }

    pub async fn lines(&self, id: &str) -> Vec<String> {
        self.registry.output(id, None).await.expect("there").lines
    }
}

pub fn config(dir: &Path) -> HostConfig {
    let mut config = HostConfig::new(Home::new(dir.join("home")));
    let bin = Path::new(env!("CARGO_BIN_EXE_agentproto")).parent();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", bin.expect("a directory").display());
    config.host_env = vec![
        ("PATH".into(), path.into()),
        ("HOME".into(), dir.join("user").into()),
    ];
    config.cwd = dir.to_owned();
    config
}

/// Event name and data of every frame, up to the end of the session.
pub async fn all(mut follower: Follower) -> Vec<(String, Value)> {
    let mut seen = Vec::new();
    let reading = async {
        while let Some(frames) = follower.next().await {
            seen.extend(frames.iter().map(|frame| parse(frame)));
        }
    };
    tokio::time::timeout(HANG, reading).await.expect("in time");
    seen
}

pub fn parse(frame: &[u8]) -> (String, Value) {
    let text = std::str::from_utf8(frame).expect("text");
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {text:?}"))
    };
    let data = serde_json::from_str(field("data: ")).expect("JSON");
    (field("event: ").to_owned(), data)
}

/// Writes an adapter to the home directory: the mock agent with a changed manifest.
pub fn adapter(dir: &Path, name: &str, change: impl Fn(String) -> String) {
    let bundle = dir.join("home/adapters").join(name);
    std::fs::create_dir_all(&bundle).expect("made");
    let bundles = agentproto_mock_agents::bundles();
    let mock = bundles
        .iter()
        .find(|b| b.name == "mock-acp")
        .expect("there");
    for (path, bytes, _) in mock.files {
        let mut text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
        if *path == "AGENT-CLI.md" {
            let before = text.clone();
            text = change(text.replace("mock-acp", name));
            assert_ne!(text, before, "the replacement changed nothing");
        }
        std::fs::write(bundle.join(path), text).expect("written");
    }
}
