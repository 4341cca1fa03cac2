//! Runs the daemon in this process, and the sessions suite against it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::Made;
use super::tamper::Host;
use agentproto_daemon::http::server::{self, Limits};
use agentproto_daemon::http::{self, Door, Names, Times};
use agentproto_daemon::mcp::{self, Offer};
use agentproto_daemon::{Config, Registry};
use agentproto_harness::model::{Report, Target, URL};
use agentproto_harness::run::process::Launcher;
use agentproto_harness::run::{
    self, Login, Options, Patience, Secrets, Setting, Workspace, prompts,
};
use agentproto_harness::sessions::{Address, HostTarget};
use agentproto_harness::suite::{self, Selection};
use agentproto_runtime::context::Sandboxing;
use agentproto_runtime::home::Home;
use agentproto_runtime::secrets::random;

/// Response timeout for a daemon in the same process on a busy machine.
const PATIENCE: Duration = Duration::from_secs(8);

static GO_ON: AtomicBool = AtomicBool::new(false);

/// The registry that all generated hosts share.
pub struct Stage {
    registry: Registry,
    _place: Workspace,
}

impl Stage {
    /// Opens a registry in a temporary directory.
    pub fn open() -> Result<Stage, String> {
        let place = Workspace::new("certify").map_err(|error| error.to_string())?;
        let mut config = Config::new(Home::new(place.path().join("home")));
        config.sandboxing = Sandboxing::Off;
        config.cwd = PathBuf::from(place.path());
        let (registry, _) = Registry::open(config).map_err(|fault| fault.message)?;
        Ok(Stage {
            registry,
            _place: place,
        })
    }

    /// Stops all remaining agents.
    pub async fn close(&self) {
        self.registry.shutdown().await;
    }

    /// Runs the suite against a host. `only` is the same as in `certify --only`.
    pub async fn trial(&self, made: &Made, only: &[String], jobs: usize) -> Result<Report, String> {
        let suite = suite::built_in("sessions").and_then(Result::ok);
        let suite = suite.ok_or_else(|| "the sessions suite is missing".to_owned())?;
        let suites = Arc::new(vec![suite]);
        let only = Selection::of(only, &suites);
        let only =
            only.map_err(|unknown| format!("unknown case or requirement `{}`", unknown.word))?;
        let token = random::token().map_err(|fault| fault.message)?;
        let mut door = Door::new(self.registry.clone(), token.clone(), Names::default());
        if let Some(keep_alive) = made.keep_alive {
            door = door.with_times(Times {
                keep_alive,
                ..Times::default()
            });
        }
        let mcp = mcp::service(self.registry.clone(), Offer::default());
        let stop_mcp = mcp.config.cancellation_token.clone();
        let host = Host {
            registry: self.registry.clone(),
            inner: http::router(Arc::new(door), Router::new().fallback_service(mcp)),
            token: token.clone(),
            tamper: Arc::new((made.tamper)()),
            memory: Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|error| error.to_string())?;
        let bound = listener.local_addr().map_err(|error| error.to_string())?;
        let (stop, stopped) = watch::channel(false);
        let limits = Limits {
            last_words: Duration::from_millis(100),
            ..Limits::default()
        };
        let serving = tokio::spawn(server::serve(
            listener,
            host.router(),
            None,
            limits,
            stopped,
        ));
        let url = format!("http://{bound}");
        let address = Address::parse(&url)?;
        let token = (!made.is_open).then_some(token);
        let launcher = Launcher::Host(Arc::new(HostTarget::new(address, token)));
        let setting = Setting {
            secrets: Secrets::of(&[], &launcher),
            launcher,
            prompts: prompts::of_mock(),
            timeout: made.patience.unwrap_or(PATIENCE),
            quiet: Duration::from_millis(300),
            grace: Duration::from_millis(1000),
            login: Login::No,
            model: None,
            workspace: Workspace::new("certify").map_err(|error| error.to_string())?,
            home: None,
            state_variable: None,
            starts: Patience::default(),
            sessions: Patience::default(),
            turns: Patience::default(),
        };
        let options = Options {
            jobs,
            shard: None,
            stop: &GO_ON,
            keep_transcripts: false,
            only,
        };
        let target = Target {
            kind: URL.to_owned(),
            name: url,
            ..Target::default()
        };
        let ran = run::run(suites, target, setting, options, Arc::new(())).await;
        stop_mcp.cancel();
        let _ = stop.send(true);
        let _ = serving.await;
        Ok(ran.report)
    }
}
