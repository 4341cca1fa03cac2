//! What a policy is resolved against. The caller provides it, so that it is determined only once.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::error::PolicyError;
pub(super) use crate::programs::find::DEFAULT_PATH;
use crate::programs::{Lookup, find};

/// The parts of this machine and this session that a policy depends on.
#[derive(Clone, Debug)]
pub struct HostContext {
    /// The environment from which `env.pass` and `passthrough` select variables.
    pub host_env: Vec<(OsString, OsString)>,
    /// The home directory of the user.
    pub home: PathBuf,
    /// The session's working directory: the workspace.
    pub cwd: PathBuf,
    /// The directory of the manifest.
    pub bundle: PathBuf,
    /// Secrets and the variables of modes and options, set by the caller. They take precedence.
    pub extra_env: Vec<(OsString, OsString)>,
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
