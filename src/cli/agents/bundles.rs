//! The CLI bundles that `mcp` and `serve` offer as MCP tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::Failure;
use agentproto_daemon::mcp::BundleTools;
use agentproto_runtime::Error;
use agentproto_runtime::context::{Context, ContextOptions, SandboxSettings, Sandboxing};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::Headless;
use agentproto_runtime::observe::{Observer, Stage};
use agentproto_runtime::tool::{BundleOptions, Target, ToolBundle};

/// Loads the bundles, or returns `None` if no target is given. Also returns why some tools are not
/// offered.
pub fn tools(
    targets: &[String],
    adapters: &[PathBuf],
    sandbox: &SandboxSettings,
    allow_invalid: bool,
) -> Result<(Option<Arc<BundleTools>>, Vec<String>), Failure> {
    if targets.is_empty() {
        return Ok((None, Vec::new()));
    }
    let home = Home::from_env()?;
    let load = |target: &String| load(target, adapters, sandbox, &home, allow_invalid);
    let bundles: Vec<ToolBundle> = targets.iter().map(load).collect::<Result<_, _>>()?;
    let (tools, warnings) = BundleTools::new(bundles);
    Ok((Some(Arc::new(tools)), warnings))
}

fn load(
    target: &str,
    adapters: &[PathBuf],
    sandbox: &SandboxSettings,
    home: &Home,
    allow_invalid: bool,
) -> Result<ToolBundle, Error> {
    let found = Target::discover(target, adapters, home)?;
    let options = ContextOptions {
        home: home.clone(),
        cwd: Path::new(".").to_owned(),
        host_env: Arc::new(std::env::vars_os().collect()),
        sandboxing: Sandboxing::Auto,
        sandbox: sandbox.clone(),
        yes: false,
        observer: Arc::new(LogObserver),
        interact: Arc::new(Headless),
    };
    let options_of_bundle = BundleOptions {
        allow_invalid,
        ..BundleOptions::default()
    };
    ToolBundle::load(Context::new(found.bundle, options)?, options_of_bundle)
}

/// Writes warnings to the log.
struct LogObserver;

impl Observer for LogObserver {
    fn stage(&self, stage: Stage, detail: &str) {
        tracing::debug!("{}: {detail}", stage.as_str());
    }

    fn progress(&self, stage: Stage, text: &str) {
        tracing::info!("{}: {text}", stage.as_str());
    }

    fn warning(&self, code: &str, message: &str) {
        tracing::warn!("{code}: {message}");
    }
}
