//! What the helper does to itself, step by step: plain data, read once from a descriptor.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The file descriptors that the helper is started with, beside 0, 1 and 2.
pub const CONTROL_FD: i32 = 3;
pub const PLAN_FD: i32 = 4;

/// Where the egress proxy listens inside: the network is the target's own, so any port is
/// free.
pub const PROXY_PORT: u16 = 3128;

/// The mode of directories that hold a denied place empty on the host, by which another
/// session on the same files knows them.
pub const PLACEHOLDER_MODE: u32 = 0o1555;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub kind: Kind,
    pub argv: Vec<Raw>,
    pub env: Vec<(Raw, Raw)>,
    pub cwd: Raw,
    /// Standard input is a terminal that the target shall own.
    pub tty: bool,
    /// The target starts without a standard input at all.
    #[serde(default)]
    pub no_stdin: bool,
    /// How long others may still write to the target's output after its end, before they are
    /// killed.
    #[serde(default)]
    pub linger_ms: u32,
    pub rlimits: Vec<(Resource, u64)>,
    /// `cgroup.procs` files that the target's processes join.
    pub cgroups: Vec<Raw>,
    /// Removed when everything is over: cgroup directories and placeholders of masks.
    pub leftovers: Vec<Raw>,
    pub confinement: Option<Confinement>,
    /// Of a guard whose command is bubblewrap: what the stage inside of it carries out.
    #[serde(default)]
    pub inner: Option<Box<Plan>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// No sandbox: only nothing may outlive the session.
    Guard,
    /// As a guard, and the target can make no socket that leads out of its own processes.
    Offline,
    /// Namespaces built by the helper itself.
    Native,
    /// Inside bubblewrap: the mounts are made, Landlock and seccomp are not.
    Inner,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Confinement {
    /// In the order in which they are made.
    pub mounts: Vec<Mount>,
    pub landlock: Vec<Rights>,
    pub seccomp: Seccomp,
    /// Listen inside for the proxy, and hand the socket out.
    pub proxy: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub at: Raw,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A host file or directory, with all that is mounted below it.
    Bind {
        source: Raw,
        writable: bool,
        exec: bool,
    },
    /// An empty directory of its own; nothing in it can be executed unless `exec`.
    Private {
        exec: bool,
    },
    /// A directory of the sealed root: it is there, and nothing can be put into it.
    Directory,
    Symlink {
        to: Raw,
    },
    Proc,
    Dev,
    /// Hides what is there: an empty file or directory that nobody can open.
    Mask {
        directory: bool,
    },
}

/// What Landlock allows beneath a path (inside the sandbox).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    pub path: Raw,
    pub write: bool,
    pub exec: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seccomp {
    /// `exec.allow: false`: threads, but no processes.
    pub no_fork: bool,
    /// Programs are listed: none may come from memory.
    pub no_memory_exec: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    AddressSpace,
    CpuSeconds,
    Processes,
    OpenFiles,
    CoreSize,
}

/// Bytes of the operating system, written as text of the same code points.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Raw(pub OsString);

impl Raw {
    pub fn path(&self) -> &Path {
        Path::new(&self.0)
    }
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for Raw {
    fn from(text: &T) -> Self {
        Self(text.as_ref().to_owned())
    }
}

impl From<PathBuf> for Raw {
    fn from(path: PathBuf) -> Self {
        Self(path.into_os_string())
    }
}

impl From<OsString> for Raw {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let text: String = self.bytes().iter().map(|b| char::from(*b)).collect();
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        let bytes = bytes.map_err(|_| serde::de::Error::custom("not bytes"))?;
        Ok(Self(OsString::from_vec(bytes)))
    }
}

/// A plan without a sandbox: only nothing may outlive it.
pub fn unconfined(argv: &[OsString], env: &[(OsString, OsString)], cwd: &Path) -> Plan {
    Plan {
        kind: Kind::Guard,
        argv: argv.iter().map(Raw::from).collect(),
        env: env
            .iter()
            .map(|(name, value)| (Raw::from(name), Raw::from(value)))
            .collect(),
        cwd: Raw::from(cwd),
        tty: false,
        no_stdin: false,
        linger_ms: 0,
        rlimits: vec![(Resource::CoreSize, 0)],
        cgroups: Vec::new(),
        leftovers: Vec::new(),
        confinement: None,
        inner: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive() {
        let raw = Raw(OsString::from_vec((1..=255).collect()));
        let text = serde_json::to_string(&raw).expect("json");
        assert_eq!(serde_json::from_str::<Raw>(&text).expect("back"), raw);
    }
}
