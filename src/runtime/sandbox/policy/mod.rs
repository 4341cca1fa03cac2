//! One policy for both shapes, AIP-29 and AIP-36, resolved against this machine.
//!
//! All host paths here are absolute and free of symbolic links (`..`, `~` and globs are
//! resolved); paths inside the sandbox are absolute and normalised.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::clause::Clause;

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

/// A path that stays hidden although a grant takes it in.
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
