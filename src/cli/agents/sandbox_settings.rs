//! What the caller adds to every sandbox: from `agentproto.toml` and from the command line.

use std::path::{Component, Path, PathBuf};

use agentproto_runtime::context::SandboxSettings;
use agentproto_sandbox::policy::{Protection, ResourceDefaults};

use crate::cli::Failure;
use crate::cli::args::Global;
use crate::cli::config::{self, SandboxConfig};
use crate::exit;

/// Reads the configuration. `read_only` are files and directories that decide about later runs: the
/// operator file and the directories of adapters.
pub fn load<'p>(
    global: &'p Global,
    read_only: impl IntoIterator<Item = &'p PathBuf>,
) -> Result<SandboxSettings, Failure> {
    let config = config::load(global)?;
    let sandbox = config.sandbox;
    let path = config.path.unwrap_or_default();
    if global.config.is_none()
        && let Some(key) = weakening_key(&sandbox)
    {
        let what = format!(
            "{}: `sandbox.{key}` is only allowed in a file that is given with `--config`, because a \
             repository must not weaken the sandbox",
            path.display()
        );
        let hint = format!("use `--config {}` if you trust it", path.display());
        return Err(Failure::new(exit::CONFIG, what).hint(hint));
    }
    for name in sandbox.protect.iter().chain(&sandbox.unprotect) {
        let is_inside = |part: Component| matches!(part, Component::Normal(_));
        if name.is_empty() || !Path::new(name).components().all(is_inside) {
            let what = format!(
                "{}: `{name}` is not a path below the working directory",
                path.display()
            );
            return Err(Failure::new(exit::DATA, what).hint("write a name such as `.vscode`"));
        }
    }
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let configured = global.config.iter();
    let mut defaults = ResourceDefaults::default();
    let bytes = |mib: u64| mib.saturating_mul(1 << 20);
    if let Some(mib) = sandbox.memory_mb {
        defaults.memory = bytes(mib);
    }
    if let Some(count) = sandbox.processes {
        defaults.processes = count;
    }
    if let Some(mib) = sandbox.private_mb {
        defaults.private_size = bytes(mib.max(1));
    }
    Ok(SandboxSettings {
        protection: Protection {
            read_only: read_only
                .into_iter()
                .chain(configured)
                .map(absolute)
                .collect(),
            names: sandbox.protect,
            unprotected: sandbox.unprotect,
            state: Vec::new(),
        },
        defaults,
    })
}

/// A setting that makes the sandbox weaker.
fn weakening_key(sandbox: &SandboxConfig) -> Option<&'static str> {
    let keys = [
        ("unprotect", !sandbox.unprotect.is_empty()),
        ("memory-mb", sandbox.memory_mb.is_some()),
        ("processes", sandbox.processes.is_some()),
        ("private-mb", sandbox.private_mb.is_some()),
    ];
    keys.into_iter().find(|(_, set)| *set).map(|(key, _)| key)
}
