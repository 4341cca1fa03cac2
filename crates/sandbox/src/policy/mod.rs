//! One policy for both shapes, AIP-29 and AIP-36, resolved against this machine.
//!
//! All host paths here are absolute and free of symbolic links (`..`, `~` and globs are
//! resolved); paths inside the sandbox are absolute and normalised.

mod aip29;
mod aip36;
mod base;
mod block;
mod deny;
mod draft;
mod env;
mod hosts;
mod narrow;
mod paths;
mod refusal;
mod surroundings;
mod target;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::clause::Clause;
use super::programs::find;
pub use refusal::{Place, Refusal};
pub use surroundings::Surroundings;
pub use target::Target;

/// The policy of a target on this machine for a command; an empty command is for a look at
/// the policy alone. What no backend could hold stands in `impossible`: whoever spawns with
/// such a policy has to refuse.
pub fn resolve(
    target: &Target,
    surroundings: &Surroundings,
    command: &[OsString],
) -> Result<Policy, Refusal> {
    match target.shape {
        Shape::Aip29 => aip29::resolve(target, surroundings, command),
        Shape::Aip36 => aip36::resolve(target, surroundings, command),
    }
}

/// What every child gets, sandboxed or not, with the caller's own variables.
pub fn basic_environment(surroundings: &Surroundings) -> Vec<(OsString, OsString)> {
    env::Variables::basic(surroundings).finish(surroundings)
}

/// Without links as far as it exists.
fn real(path: &Path) -> PathBuf {
    let walked = super::programs::links::Trail::default().follow_lenient(path);
    walked.map_or_else(|_| path.to_owned(), |w| w.whole())
}

impl Policy {
    /// Where a path inside lies on the host, by the grant that shows it.
    pub fn on_host(&self, path: &Path) -> Option<(&Grant, PathBuf)> {
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

    /// The program (inside) that a name means to the child: through its own PATH, or by a path
    /// from a directory; only what it could execute itself.
    pub fn program(&self, name: &OsStr, cwd: &Path) -> Option<PathBuf> {
        let path = self.env.iter().find(|(known, _)| known == "PATH");
        let path = path.map_or(OsStr::new(surroundings::DEFAULT_PATH), |(_, value)| value);
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
        // `/bin` is a link on most systems; what it leads to is what is granted.
        let host = self.on_host(inside).map(|(_, host)| host);
        let real = real(&host.unwrap_or_else(|| inside.to_owned()));
        let shown = |g: &Grant| g.exec && real.starts_with(&g.source);
        let hidden = |d: &Denial| inside.starts_with(&d.path) || real.starts_with(&d.path);
        find::is_program(&real)
            && self.grants.iter().any(shown)
            && !self.denials.iter().any(hidden)
            && match &self.exec {
                Exec::Visible => true,
                Exec::Listed { programs, .. } => programs.contains(&real),
            }
    }

    /// What the child may do with a path inside: the innermost grant decides, unless the
    /// path is hidden.
    pub fn access(&self, path: &Path) -> Option<&Grant> {
        let hidden = self.denials.iter().any(|d| path.starts_with(&d.path));
        match hidden {
            true => None,
            false => draft::innermost(&self.grants, path),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Policy {
    pub shape: Shape,
    /// Host names that may be reached, as written.
    pub egress: Vec<(Clause, String)>,
    /// URLs that the host exposes inbound.
    pub ingress: Vec<(Clause, String)>,
    pub grants: Vec<Grant>,
    /// Symbolic links that stand outside all granted directories, as on the host.
    pub links: Vec<Link>,
    pub denials: Vec<Denial>,
    /// Clauses that hold because nothing they speak of is in the sandbox, with the reason.
    pub absent: Vec<(Clause, String)>,
    pub exec: Exec,
    /// The whole environment of the child.
    pub env: Vec<(OsString, OsString)>,
    pub env_clauses: Vec<Clause>,
    pub tty: Option<Clause>,
    pub limits: Vec<Limit>,
    /// Working directory inside the sandbox.
    pub cwd: PathBuf,
    /// `HOME` as the child sees it: private, but for what is granted below it.
    pub home: PathBuf,
    /// Clauses that no backend could hold, with the reason.
    pub impossible: Vec<(Clause, String)>,
    /// Things that hold and still deserve a word.
    pub notes: Vec<(Clause, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Aip29,
    Aip36,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    /// Reading too.
    Write,
}

/// A host path that the child sees. Grants come parents first; those of one place agree in
/// `access` and `exec` (each has its own clause), so it is made once.
#[derive(Clone, Debug)]
pub struct Grant {
    pub source: PathBuf,
    /// Where it appears inside; mostly the same path.
    pub at: PathBuf,
    pub access: Access,
    /// Whether files below may be mapped and executed.
    pub exec: bool,
    /// Made at spawn where it is missing: a login that is to be written needs its directory.
    pub create: bool,
    /// `None` for what every child needs: libraries, time zones, certificates.
    pub clause: Option<Clause>,
}

/// A symbolic link of the host, kept so that a program that asks where it lies gets the same
/// answer inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    pub at: PathBuf,
    /// As written: relative to the directory of the link, or absolute.
    pub to: PathBuf,
}

/// A path (inside) that stays hidden although a grant takes it in.
#[derive(Clone, Debug)]
pub struct Denial {
    pub path: PathBuf,
    pub kind: Hidden,
    pub clause: Clause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    File,
    Directory,
    /// Not there now, inside a writable grant: to be held empty.
    Missing,
}

/// Which programs may run.
#[derive(Clone, Debug)]
pub enum Exec {
    /// AIP-36: whatever is visible on an executable mount.
    Visible,
    /// AIP-29.
    Listed {
        /// May it create processes at all (`exec.allow`)?
        fork: bool,
        /// Files that may be executed: the target, the listed programs, their script
        /// interpreters and the ELF loader.
        programs: Vec<PathBuf>,
        clause: Clause,
    },
}

#[derive(Clone, Debug)]
pub struct Limit {
    pub clause: Clause,
    pub kind: LimitKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Wall time of one command.
    Timeout(Duration),
    Memory {
        bytes: u64,
    },
    /// Processor time.
    Cpu(Duration),
    Processes(u64),
}
