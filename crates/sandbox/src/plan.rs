//! What the helper does to itself, step by step: plain data that is read once from a descriptor.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Descriptor of the control socket. The helper is started with it, the plan, and 0 to 2.
pub const CONTROL_FD: i32 = 3;
/// Descriptor of the plan.
pub const PLAN_FD: i32 = 4;
/// The first descriptor that bubblewrap mounts from.
pub const FIRST_SOURCE_FD: i32 = 100;

/// Port of the egress proxy inside. The target has its own network, so every port is free.
pub const PROXY_PORT: u16 = 3128;

/// Default for the maximum size of each private directory in memory, in bytes.
pub const PRIVATE_SIZE: u64 = 1 << 30;

/// Mode of the directories on the host that reserve a denied path. Other sessions on the same files
/// recognize them by it.
pub const PLACEHOLDER_MODE: u32 = 0o1555;
/// Mode of the files on the host that reserve a name.
pub const PLACEHOLDER_FILE_MODE: u32 = 0o1444;
/// Contents of files that reserve a name.
pub const PLACEHOLDER_TEXTS: [&str; 2] = ["", ".\n"];

/// How to start a target, and how to confine it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpawnPlan {
    /// How the target is run.
    pub kind: PlanKind,
    /// Arguments of the target, starting with its path.
    pub argv: Vec<Raw>,
    /// Environment of the target.
    pub env: Vec<(Raw, Raw)>,
    /// Working directory of the target.
    pub cwd: Raw,
    /// Whether stdin is a terminal that the target should control.
    pub tty: bool,
    /// Whether the target starts without stdin.
    #[serde(default)]
    pub no_stdin: bool,
    /// Time after the target's end in which other processes may still write to its output before
    /// they are killed, in milliseconds.
    #[serde(default)]
    pub linger_ms: u32,
    /// Resource limits of the target.
    pub rlimits: Vec<(Resource, u64)>,
    /// `cgroup.procs` files of the groups that the target joins.
    pub cgroups: Vec<Raw>,
    /// Paths that are removed at the end: control groups and placeholders of masks.
    pub leftovers: Vec<Raw>,
    /// The confinement, or `None` without a sandbox.
    pub confinement: Option<Confinement>,
    /// Host paths that are opened without following links and passed to bubblewrap as descriptors,
    /// starting at `FIRST_SOURCE_FD`.
    #[serde(default)]
    pub sources: Vec<Raw>,
    /// Device and inode of each source, as opened.
    #[serde(default)]
    pub source_identities: Vec<(u64, u64)>,
    /// The plan of the stage inside bubblewrap, if the command is bubblewrap.
    #[serde(default)]
    pub inner: Option<Box<SpawnPlan>>,
}

/// How a target is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanKind {
    /// No sandbox. It only ensures that no process outlives the session.
    Guard,
    /// Like a guard, and the target cannot create sockets that lead out of its own processes.
    Offline,
    /// Namespaces that the helper creates itself.
    Native,
    /// Inside bubblewrap, which has created the namespaces.
    Inner,
    /// Inside bubblewrap, which has also made the mounts. They are checked.
    InnerMounted,
}

/// What the target may see and do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Confinement {
    /// Mounts in the order in which they are made.
    pub mounts: Vec<Mount>,
    /// Access that Landlock allows. Everything else is denied.
    pub landlock: Vec<Rights>,
    /// System calls that are blocked.
    pub seccomp: Seccomp,
    /// Whether to listen inside for the proxy, and pass the socket to the runner.
    pub proxy: bool,
}

/// One mount in the root of the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Path inside the sandbox.
    pub at: Raw,
    /// What is mounted there.
    pub what: MountKind,
}

/// What is mounted at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountKind {
    /// A file or directory of the host, with all mounts below it.
    Bind {
        /// Path on the host.
        source: Raw,
        /// Whether it is writable.
        writable: bool,
        /// Whether files in it may be executed.
        exec: bool,
    },
    /// An empty private directory in memory.
    Private {
        /// Whether files in it may be executed.
        exec: bool,
        /// Maximum size of its contents, in bytes.
        size: u64,
    },
    /// An empty read-only directory that hides what is there. Other mounts may be made in it.
    Empty,
    /// An empty read-only directory at a name that does not exist, so that it cannot be created.
    Reserved,
    /// A read-only file at a name that does not exist.
    ReservedFile {
        /// Path on the host.
        source: Raw,
        /// Contents of the file.
        text: String,
    },
    /// A directory of the read-only root, in which nothing can be created.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Target of the link.
        to: Raw,
    },
    /// A new `/proc`, read-only.
    Proc,
    /// A minimal `/dev`.
    Dev {
        /// Maximum size of the shared memory, in bytes.
        size: u64,
    },
    /// Hides what is there by an empty file or directory that cannot be opened.
    Mask {
        /// Whether a directory is hidden, not a file.
        directory: bool,
    },
}

/// What Landlock allows below a path (inside the sandbox).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Path inside the sandbox.
    pub path: Raw,
    /// Whether files below it may be written.
    pub write: bool,
    /// Whether files below it may be executed.
    pub exec: bool,
}

/// System calls that are blocked in addition to the fixed list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seccomp {
    /// `exec.allow: false`: threads are allowed, processes are not.
    pub no_fork: bool,
    /// Programs are listed, so none may be executed from memory.
    pub no_memory_exec: bool,
}

/// A resource that `setrlimit` limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// Address space, in bytes.
    AddressSpace,
    /// Processor time, in seconds.
    CpuSeconds,
    /// Number of processes and threads of the user.
    Processes,
    /// Number of open descriptors.
    OpenFiles,
    /// Size of a core dump, in bytes.
    CoreSize,
}

/// Bytes of the operating system, serialized as text with the same code points.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Raw(pub OsString);

impl Raw {
    /// The bytes as a path.
    pub fn path(&self) -> &Path {
        Path::new(&self.0)
    }
    /// The bytes.
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

/// A plan without a sandbox. It only ensures that no process outlives it.
pub fn unconfined(argv: &[OsString], env: &[(OsString, OsString)], cwd: &Path) -> SpawnPlan {
    SpawnPlan {
        kind: PlanKind::Guard,
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
        sources: Vec::new(),
        source_identities: Vec::new(),
        inner: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_round_trip() {
        let raw = Raw(OsString::from_vec((1..=255).collect()));
        let text = serde_json::to_string(&raw).expect("json");
        assert_eq!(serde_json::from_str::<Raw>(&text).expect("back"), raw);
    }
}
