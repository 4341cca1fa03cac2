//! One policy for both kinds of sandboxes, AIP-29 and AIP-36, resolved on this machine.
//!
//! All host paths are absolute and without symbolic links; `..`, `~` and globs are resolved. Paths
//! inside the sandbox are absolute and normalized.

mod aip29;
mod aip36;
mod base;
mod block;
mod deny;
mod draft;
mod env;
mod error;
mod git_config;
mod host_context;
mod hosts;
mod manifest;
mod narrow;
mod paths;
mod protect;
mod repository;
mod runner;
mod state;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::clause::Clause;
use super::programs::find;
pub(crate) use draft::is_separated;
pub use env::WHOLE_ENVIRONMENT;
pub use error::{ManifestPosition, PolicyError};
pub use host_context::{HostContext, Protection, ResourceDefaults};
pub use manifest::SandboxManifest;
pub use protect::{BUNDLE_FILES, CONTROL_NAMES, ENTRY_FILES};
pub use state::StateCreation;

/// Resolves the policy of a manifest on this machine for a command. The command may be empty, to
/// inspect the policy only. Clauses that no backend can enforce are in `unenforceable`, and a
/// caller must refuse to spawn with them.
pub fn resolve(
    manifest: &SandboxManifest,
    context: &HostContext,
    command: &[OsString],
) -> Result<Policy, PolicyError> {
    let mut policy = match manifest.spec {
        SandboxSpec::Aip29 => aip29::resolve(manifest, context, command),
        SandboxSpec::Aip36 => aip36::resolve(manifest, context, command),
    }?;
    if let Some(runner) = &manifest.runner {
        runner.apply(&mut policy)?;
    }
    Ok(policy)
}

/// The variables that every child gets, sandboxed or not, and the caller's own variables.
pub fn basic_environment(context: &HostContext) -> Vec<(OsString, OsString)> {
    env::Variables::basic(context).finish(context)
}

/// The path with links resolved, as far as it exists.
fn real_path(path: &Path) -> PathBuf {
    let resolved = super::programs::links::FollowedLinks::default().follow_lenient(path);
    resolved.map_or_else(|_| path.to_owned(), |w| w.full_path())
}

impl Policy {
    /// The host path of a path inside, and the grant that shows it.
    pub fn on_host(&self, path: &Path) -> Option<(&PathGrant, PathBuf)> {
        let grant = self.access(path)?;
        let below = path.strip_prefix(&grant.at).ok()?;
        Some((
            grant,
            match below.as_os_str().is_empty() {
                true => grant.source.clone(),
                false => grant.source.join(below),
            },
        ))
    }

    /// The program (inside) that a name refers to for the child: through its PATH, or as a path
    /// relative to a directory. Only programs that the child may execute are found.
    pub fn program(&self, name: &OsStr, cwd: &Path) -> Option<PathBuf> {
        let path = self.env.iter().find(|(known, _)| known == "PATH");
        let path = path.map_or(OsStr::new(host_context::DEFAULT_PATH), |(_, value)| value);
        let candidates: Vec<PathBuf> = match name.as_encoded_bytes().contains(&b'/') {
            true => vec![cwd.join(name)],
            false => std::env::split_paths(path)
                .filter(|dir| dir.is_absolute())
                .map(|dir| dir.join(name))
                .collect(),
        };
        candidates
            .into_iter()
            .find(|inside| self.may_execute(inside))
    }

    fn may_execute(&self, inside: &Path) -> bool {
        // `/bin` is a link on most systems, and its target is what is granted.
        let host = self.on_host(inside).map(|(_, host)| host);
        let real = real_path(&host.unwrap_or_else(|| inside.to_owned()));
        let shown = |g: &PathGrant| g.exec && real.starts_with(&g.source);
        let hidden = |d: &Denial| d.hides(&self.grants, inside) || d.hides(&self.grants, &real);
        find::is_program(&real)
            && self.grants.iter().any(shown)
            && !self.denials.iter().any(hidden)
            && match &self.exec {
                Exec::Visible => true,
                Exec::Listed { programs, .. } => programs.contains(&real),
            }
    }

    /// The grant for a path inside: the innermost one, or `None` if the path is hidden.
    pub fn access(&self, path: &Path) -> Option<&PathGrant> {
        let hidden = self.denials.iter().any(|d| d.hides(&self.grants, path));
        match hidden {
            true => None,
            false => draft::innermost(&self.grants, path),
        }
    }
}

/// What a child may do, resolved on this machine.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The spec that the block follows.
    pub spec: SandboxSpec,
    /// Host names that may be reached, as written.
    pub egress: Vec<(Clause, String)>,
    /// URLs that the host exposes inbound.
    pub ingress: Vec<(Clause, String)>,
    /// Host paths that the child sees.
    pub grants: Vec<PathGrant>,
    /// Symbolic links outside all granted directories, as on the host.
    pub links: Vec<Symlink>,
    /// Directories of the host that are created before the start, so that they can be hidden.
    pub create: Vec<PathBuf>,
    /// Hidden paths inside grants.
    pub denials: Vec<Denial>,
    /// What is protected although no clause says so, and how.
    pub protected: Vec<(Clause, String)>,
    /// Clauses that have no effect in the sandbox, with the reason.
    pub ineffective: Vec<(Clause, String)>,
    /// Which programs may run.
    pub exec: Exec,
    /// The complete environment of the child.
    pub env: Vec<(OsString, OsString)>,
    /// Clauses of the environment.
    pub env_clauses: Vec<Clause>,
    /// The clause that requires a terminal.
    pub tty: Option<Clause>,
    /// Limits on time, memory and processes.
    pub limits: Vec<PolicyLimit>,
    /// Maximum size of each private directory in memory (`/tmp`, the home, `/dev/shm`), in bytes.
    /// With 0, `/tmp` and the home are empty and read-only.
    pub private_size: u64,
    /// Working directory inside the sandbox.
    pub cwd: PathBuf,
    /// `HOME` inside the sandbox. It is private, except for what is granted below it.
    pub home: PathBuf,
    /// Clauses that no backend can enforce, with the reason.
    pub unenforceable: Vec<(Clause, String)>,
    /// Notes on clauses that are enforced.
    pub notes: Vec<(Clause, String)>,
}

/// The spec that a sandbox block follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxSpec {
    /// AIP-29: the sandbox of a CLI bundle.
    Aip29,
    /// AIP-36: the sandbox of an agent.
    Aip36,
}

/// Access to a granted path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Includes reading.
    Write,
}

/// A host path that the child sees. Parents come first. Grants at one path have the same `access`
/// and `exec`, but their own clauses, so the path is mounted once.
#[derive(Clone, Debug)]
pub struct PathGrant {
    /// Path on the host.
    pub source: PathBuf,
    /// Path inside the sandbox, mostly the same as on the host.
    pub at: PathBuf,
    /// Whether the path is writable.
    pub access: Access,
    /// Whether files below may be mapped and executed.
    pub exec: bool,
    /// What to create at spawn, because it is missing.
    pub create: Option<NewPath>,
    /// The clause, or `None` for what every child needs: libraries, time zones, certificates.
    pub clause: Option<Clause>,
}

/// What is created at a missing path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewPath {
    /// A directory with mode 0700.
    Directory,
    /// An empty file with mode 0600.
    File,
}

/// A symbolic link of the host. It is kept so that a program finds itself at the same path inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symlink {
    /// Path of the link.
    pub at: PathBuf,
    /// Target as written: relative to the directory of the link, or absolute.
    pub to: PathBuf,
}

/// A path (inside) that stays hidden although a grant includes it.
#[derive(Clone, Debug)]
pub struct Denial {
    /// The hidden path.
    pub path: PathBuf,
    /// What is at the path.
    pub kind: HiddenKind,
    /// The clause that denies it.
    pub clause: Clause,
}

/// What is at a hidden path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// Does not exist now, but is inside a writable grant: its creation must be prevented.
    Missing,
    /// Does not exist now, and would decide about later runs: it appears as an empty directory.
    Reserved,
    /// Like `Reserved`, but appears as a file with this text, where a directory would be an error.
    ReservedFile(&'static str),
    /// agentproto's own state: it appears empty, except for grants inside it.
    State,
}

impl HiddenKind {
    /// Whether the denial also removes grants inside its path.
    pub(crate) fn removes_grants(self) -> bool {
        matches!(self, Self::File | Self::Directory)
    }
}

impl Denial {
    /// Whether the denial hides a path (inside), given the grants.
    fn hides(&self, grants: &[PathGrant], path: &Path) -> bool {
        let shown = || {
            let grant = draft::innermost(grants, path);
            self.kind == HiddenKind::State && grant.is_some_and(|g| g.at.starts_with(&self.path))
        };
        path.starts_with(&self.path) && !shown()
    }
}

/// Which programs may run.
#[derive(Clone, Debug)]
pub enum Exec {
    /// AIP-36: everything that is visible on an executable mount.
    Visible,
    /// AIP-29: only listed programs.
    Listed {
        /// Whether it may create processes at all (`exec.allow`).
        fork: bool,
        /// Files that may be executed: the target, the listed programs, their script interpreters
        /// and the ELF loader.
        programs: Vec<PathBuf>,
        /// The clause that lists them.
        clause: Clause,
    },
}

/// A limit of a policy.
#[derive(Clone, Debug)]
pub struct PolicyLimit {
    /// Whether this is a default, which is skipped where the machine cannot enforce it.
    pub default: bool,
    /// The clause that sets it.
    pub clause: Clause,
    /// The resource and its limit.
    pub kind: LimitKind,
}

/// A resource and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Wall time of one command.
    Timeout(Duration),
    /// Memory of the child and its descendants.
    Memory {
        /// Maximum size, in bytes.
        bytes: u64,
    },
    /// Processor time.
    Cpu(Duration),
    /// Number of processes at a time.
    Processes(u64),
}

impl LimitKind {
    /// The limit that a key of `limits` sets (AIP-17, AIP-36).
    fn from_key(key: &str, amount: u64) -> LimitKind {
        match key {
            "timeout_ms" => LimitKind::Timeout(Duration::from_millis(amount)),
            "memory_mb" => LimitKind::Memory {
                bytes: amount.saturating_mul(1 << 20),
            },
            _ => LimitKind::Cpu(Duration::from_millis(amount)),
        }
    }

    /// The limit as a number, to compare limits of the same resource.
    fn amount(self) -> u128 {
        match self {
            LimitKind::Timeout(max) | LimitKind::Cpu(max) => max.as_nanos(),
            LimitKind::Memory { bytes } => bytes.into(),
            LimitKind::Processes(count) => count.into(),
        }
    }
}
