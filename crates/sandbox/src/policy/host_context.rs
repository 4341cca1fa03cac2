//! What a policy is resolved against. The caller provides it, so that it is determined only once.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::error::PolicyError;
use super::state::StateCreation;
pub(super) use crate::programs::find::DEFAULT_PATH;
use crate::programs::{Lookup, find};

/// The parts of this machine and this session that a policy depends on.
#[derive(Clone, Debug)]
pub struct HostContext {
    /// The environment from which `env.pass` and `passthrough` select variables.
    pub host_env: Vec<(OsString, OsString)>,
    /// The home directory of the user.
    pub home: PathBuf,
    /// The session's working directory: the workspace. An absolute path without links.
    pub cwd: PathBuf,
    /// The directory of the manifest.
    pub bundle: PathBuf,
    /// Secrets and the variables of modes and options, set by the caller. They take precedence.
    pub extra_env: Vec<(OsString, OsString)>,
    /// What the child must not change or see, whatever the manifest grants.
    pub protection: Protection,
    /// Limits that apply where the manifest sets none.
    pub defaults: ResourceDefaults,
    /// Which missing paths of `auth.state` are created.
    pub state_creation: StateCreation,
}

/// Limits that apply where the manifest sets none.
#[derive(Clone, Copy, Debug)]
pub struct ResourceDefaults {
    /// Maximum memory of an AIP-29 command, in bytes, or 0 for no limit. By default half of the
    /// machine's memory.
    pub memory: u64,
    /// Maximum number of processes and threads of an AIP-29 command, or 0 for no limit.
    pub processes: u64,
    /// Maximum size of each private directory in memory (`/tmp`, the home, `/dev/shm`), in bytes.
    pub private_size: u64,
}

impl Default for ResourceDefaults {
    fn default() -> Self {
        Self {
            memory: physical_memory() / 2,
            processes: 1024,
            private_size: crate::plan::PRIVATE_SIZE,
        }
    }
}

/// The memory of this machine in bytes, or 0 if it is unknown.
fn physical_memory() -> u64 {
    // SAFETY: plain numbers.
    let (pages, size) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(size).unwrap_or(0)
}

/// What a sandboxed program must not change or see, whatever the manifest grants, because it
/// decides what later runs may do.
#[derive(Clone, Debug, Default)]
pub struct Protection {
    /// Files and directories that stay read-only, such as the adapters and the operator file.
    pub read_only: Vec<PathBuf>,
    /// More names in the working directory that stay read-only, as [`super::CONTROL_NAMES`] do.
    pub names: Vec<String>,
    /// Names that the user allows the program to change, such as `.vscode` or `.git`.
    pub unprotected: Vec<String>,
    /// Directories with agentproto's own state. The program does not see them.
    pub state: Vec<PathBuf>,
}

impl HostContext {
    /// The context of this process.
    pub fn of_this_process(bundle: &Path) -> std::io::Result<Self> {
        let home = std::env::var_os("HOME").filter(|home| Path::new(home).is_absolute());
        Ok(HostContext {
            host_env: std::env::vars_os().collect(),
            home: home.map_or_else(|| PathBuf::from("/nonexistent"), PathBuf::from),
            cwd: std::env::current_dir()?,
            bundle: std::path::absolute(bundle)?,
            extra_env: Vec::new(),
            protection: Protection::default(),
            defaults: ResourceDefaults::default(),
            state_creation: StateCreation::default(),
        })
    }

    /// The value of a variable in the environment of the host.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        let (_, value) = self.host_env.iter().rev().find(|(n, _)| n == name)?;
        Some(value)
    }

    /// The program that a name refers to, through `PATH` or as a path.
    pub fn find(&self, name: &OsStr) -> Result<PathBuf, PolicyError> {
        find::find(&self.lookup(), name).ok_or_else(|| PolicyError::ProgramNotFound {
            name: name.to_string_lossy().into_owned(),
        })
    }

    pub(super) fn lookup(&self) -> Lookup {
        Lookup {
            path: find::search_path(&self.host_env),
            cwd: self.cwd.clone(),
            home: self.home.clone(),
            env: self.host_env.clone(),
        }
    }
}
