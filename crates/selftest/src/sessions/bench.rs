//! Runs the daemon in this process, and the sessions suite against it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::HostSpec;
use super::changes::ChangedHost;
use agentproto_daemon::http::server::{self, ServerLimits};
use agentproto_daemon::http::{self, AppState, HostNames, Timeouts};
use agentproto_daemon::mcp::{self, ToolOptions};
use agentproto_daemon::{HostConfig, Registry};
use agentproto_harness::model::{Report, Target, URL};
use agentproto_harness::run::process::Launcher;
use agentproto_harness::run::{self, RunConfig, RunDirectory, RunOptions, prompts};
use agentproto_harness::sessions::{HostAddress, HostTarget};
use agentproto_harness::suite::{self, Selection};
use agentproto_runtime::context::Sandboxing;
use agentproto_runtime::home::Home;
use agentproto_runtime::secrets::random;

/// Response timeout for a daemon in the same process on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(8);

static NEVER_STOP: AtomicBool = AtomicBool::new(false);

/// The registry that all generated hosts share.
pub struct HostBench {
    registry: Registry,
    _slot: RunDirectory,
}

impl HostBench {
    /// Opens a registry in a temporary directory.
    pub fn open() -> Result<HostBench, String> {
        let place = RunDirectory::new("certify").map_err(|error| error.to_string())?;
        let mut config = HostConfig::new(Home::new(place.path().join("home")));
        config.sandboxing = Sandboxing::Off;
        config.cwd = PathBuf::from(place.path());
        let (registry, _) = Registry::open(config).map_err(|error| error.message)?;
        Ok(HostBench {
            registry,
            _slot: place,
        })
    }

    /// Stops all remaining agents.
    pub async fn close(&self) {
        self.registry.shutdown().await;
    }

    /// Runs the suite against a host. `only` is the same as in `certify --only`.
    pub async fn run_suite(
        &self,
        host_spec: &HostSpec,
        only: &[String],
        jobs: usize,
    ) -> Result<Report, String> {
        let suite = suite::built_in("sessions").and_then(Result::ok);
        let suite = suite.ok_or_else(|| "the sessions suite is missing".to_owned())?;
        let suites = Arc::new(vec![suite]);
        let only = Selection::new(only, &suites);
        let only =
            only.map_err(|unknown| format!("unknown case or requirement `{}`", unknown.word))?;
        let token = random::token().map_err(|error| error.message)?;
        let mut app_state =
            AppState::new(self.registry.clone(), token.clone(), HostNames::default());
        if let Some(keep_alive) = host_spec.keep_alive {
            app_state = app_state.with_timeouts(Timeouts {
                keep_alive,
                ..Timeouts::default()
            });
        }
        let mcp = mcp::service(self.registry.clone(), ToolOptions::default());
        let stop_mcp = mcp.config.cancellation_token.clone();
        let host = ChangedHost {
            registry: self.registry.clone(),
            inner: http::router(Arc::new(app_state), Router::new().fallback_service(mcp)),
            token: token.clone(),
            changes: Arc::new((host_spec.changes)()),
            state: Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|error| error.to_string())?;
        let bound = listener.local_addr().map_err(|error| error.to_string())?;
        let (stop, stopped) = watch::channel(false);
        let limits = ServerLimits {
            shutdown_grace: Duration::from_millis(100),
            ..ServerLimits::default()
        };
        let serving = tokio::spawn(server::serve(
            listener,
            host.router(),
            None,
            limits,
            stopped,
        ));
        let url = format!("http://{bound}");
        let address = HostAddress::parse(&url)?;
        let token = (!host_spec.without_token).then_some(token);
        let mut target = HostTarget::new(address, token);
        let door = host_spec.door;
        target.door = door.map(|change| super::door::door(self.registry.clone(), change));
        let launcher = Launcher::Host(Arc::new(target));
        let workspace = RunDirectory::new("certify").map_err(|error| error.to_string())?;
        let config = RunConfig {
            prompts: prompts::mock_prompts(),
            timeout: host_spec.timeout.unwrap_or(TIMEOUT),
            ..RunConfig::new(launcher, workspace)
        };
        let options = RunOptions {
            jobs,
            shard: None,
            stop: &NEVER_STOP,
            keep_transcripts: false,
            only,
            ..RunOptions::default()
        };
        let target = Target {
            kind: URL.to_owned(),
            name: url,
            ..Target::default()
        };
        let result = run::run(suites, target, config, options, Arc::new(())).await;
        stop_mcp.cancel();
        let _ = stop.send(true);
        let _ = serving.await;
        Ok(result.report)
    }
}
