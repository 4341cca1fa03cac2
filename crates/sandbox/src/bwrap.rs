//! The second backend: bubblewrap creates the namespaces and the mounts, and the helper inside it
//! does the rest.
//!
//! Bubblewrap has no option for mounts without execution. If it can leave the helper the capability
//! to change mounts (`HelperCapability::Mounts`), the helper removes execution itself and then drops
//! the capability. Everything is then enforced as in the native backend. If it cannot, only Landlock
//! limits execution. Listed programs may run, but so may any readable file, because the ELF loader
//! must be listed and loads it. So a list of programs is refused in that case.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::plan::{Confinement, FIRST_SOURCE_FD, Mount, MountKind, PlanKind, Raw, SpawnPlan};
use crate::helper;

/// Directory inside the sandbox that holds the helper until it runs.
pub const HELPER_DIR: &str = "/.agentproto";

/// A bubblewrap that works on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Bubblewrap {
    /// Path of the program.
    pub path: PathBuf,
    /// Version as it prints it, such as `0.8.0`.
    pub version: String,
    /// What the helper can still do inside.
    #[serde(rename = "power")]
    pub capability: HelperCapability,
    /// Files that are needed to execute the helper inside.
    #[serde(skip)]
    pub helper_files: HelperFiles,
}

/// What the helper can still do inside bubblewrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HelperCapability {
    /// The helper can make the mounts inside, so bubblewrap only creates the namespaces.
    Mounts,
    /// Only Landlock and seccomp are left after bubblewrap. Not for root, which could change the
    /// modes of the host's devices.
    LandlockOnly,
}

impl Bubblewrap {
    /// Whether lists of programs (`exec.spawn`) can be enforced.
    pub fn check_exec_lists(&self) -> Result<(), BwrapError> {
        match self.capability {
            HelperCapability::Mounts => Ok(()),
            HelperCapability::LandlockOnly => Err(BwrapError::Exec),
        }
    }
}

/// Files that are needed to execute the helper in an empty root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelperFiles {
    /// The program.
    pub binary: PathBuf,
    /// The ELF loader, or `None` for a static binary.
    pub loader: Option<PathBuf>,
    /// The shared libraries.
    pub libraries: Vec<PathBuf>,
}

impl HelperFiles {
    /// Parses the loader's own list: `name => path (address)`, and the loader by its path.
    pub fn parse(binary: PathBuf, list: &str) -> Self {
        let mut helper_files = Self {
            binary,
            ..Self::default()
        };
        for line in list.lines() {
            let line = line.trim();
            let (named, path) = match line.split_once(" => ") {
                Some((_, path)) => (true, path),
                None => (false, line),
            };
            let path = path.split(" (").next().unwrap_or_default();
            if !path.starts_with('/') {
                continue;
            }
            if named {
                helper_files.libraries.push(PathBuf::from(path));
            } else {
                helper_files.loader = Some(PathBuf::from(path));
            }
        }
        helper_files
    }

    /// Binds the helper and its libraries into `HELPER_DIR`.
    fn binds(&self, arguments: &mut Arguments) {
        let helper_dir = Path::new(HELPER_DIR);
        // The system's links to libraries are trusted.
        let mut bind = |from: &Path, to: PathBuf| {
            let real = from.canonicalize().unwrap_or_else(|_| from.to_owned());
            arguments.bind(&real, &to, false);
        };
        bind(&self.binary, helper_dir.join(helper::NAME));
        if let Some(loader) = &self.loader {
            bind(loader, helper_dir.join("loader"));
        }
        for library in &self.libraries {
            if let Some(name) = library.file_name() {
                bind(library, helper_dir.join("lib").join(name));
            }
        }
    }

    /// The helper by its own name: found on the search path, or started by its loader.
    fn command(&self) -> Vec<OsString> {
        if self.loader.is_none() {
            return vec![helper::NAME.into()];
        }
        let at = |name: &str| format!("{HELPER_DIR}/{name}").into();
        vec![
            at("loader"),
            "--argv0".into(),
            helper::NAME.into(),
            "--library-path".into(),
            at("lib"),
            at(helper::NAME),
        ]
    }
}

/// The environment of bubblewrap itself; the inner plan has the target's environment. The helper
/// inside needs little memory for a short time, and no huge pages.
pub const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", HELPER_DIR),
    ("MIMALLOC_ALLOW_THP", "0"),
    ("MIMALLOC_ARENA_EAGER_COMMIT", "0"),
];

/// Why bubblewrap cannot run a plan.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BwrapError {
    /// The plan has no confinement.
    #[error("the plan has no confinement")]
    Unconfined,
    /// A list of programs cannot be enforced, because execution cannot be removed from mounts.
    #[error(
        "bubblewrap cannot enforce a list of programs here: it does not let the helper mount \
         without execution, so the ELF loader would run any readable file; allow user \
         namespaces for this binary and use the native backend"
    )]
    Exec,
}

/// Converts a native plan into one for bubblewrap. The mounts, the rights and the filters stay the
/// same.
pub fn plan(mut plan: SpawnPlan, bubblewrap: &Bubblewrap) -> Result<SpawnPlan, BwrapError> {
    let Some(confinement) = &plan.confinement else {
        return Err(BwrapError::Unconfined);
    };
    if confinement.seccomp.no_memory_exec {
        bubblewrap.check_exec_lists()?;
    }
    let (arguments, kind) = match bubblewrap.capability {
        HelperCapability::Mounts => {
            let arguments = Arguments::with_host_root(bubblewrap, helper::INSIDE_MODE);
            (arguments, PlanKind::Inner)
        }
        HelperCapability::LandlockOnly => {
            let arguments = Arguments::with_mounts(confinement, bubblewrap);
            (arguments, PlanKind::InnerMounted)
        }
    };
    Ok(SpawnPlan {
        kind: PlanKind::Guard,
        argv: arguments.words.into_iter().map(Raw::from).collect(),
        env: ENVIRONMENT
            .map(|(name, value)| (Raw::from(name), Raw::from(value)))
            .to_vec(),
        cwd: Raw::from("/"),
        tty: plan.tty,
        no_stdin: false,
        linger_ms: 0,
        rlimits: Vec::new(),
        cgroups: std::mem::take(&mut plan.cgroups),
        leftovers: std::mem::take(&mut plan.leftovers),
        confinement: None,
        sources: arguments.sources,
        source_identities: Vec::new(),
        inner: Some(Box::new(SpawnPlan { kind, ..plan })),
    })
}

/// The command line of a trial, and the sources that it mounts by descriptor. It is like a real one,
/// but with only the helper in the root.
pub fn trial_arguments(
    path: &Path,
    capability: HelperCapability,
    helper_files: &HelperFiles,
    mode: &str,
) -> (Vec<OsString>, Vec<Raw>) {
    let bubblewrap = Bubblewrap {
        path: path.to_owned(),
        version: String::new(),
        capability,
        helper_files: helper_files.clone(),
    };
    let arguments = match capability {
        HelperCapability::Mounts => Arguments::with_host_root(&bubblewrap, mode),
        HelperCapability::LandlockOnly => {
            let size = 1 << 20;
            let mounts = [
                ("/proc", MountKind::Proc),
                ("/dev", MountKind::Dev { size }),
            ];
            let confinement = Confinement {
                mounts: mounts
                    .map(|(at, what)| Mount {
                        at: Raw::from(at),
                        what,
                    })
                    .into(),
                ..Confinement::default()
            };
            let mut arguments = Arguments::with_mounts(&confinement, &bubblewrap);
            arguments.words.push(mode.into());
            arguments
        }
    };
    (arguments.words, arguments.sources)
}

/// A command line of bubblewrap under construction.
struct Arguments {
    words: Vec<OsString>,
    /// Host paths that are passed as descriptors.
    sources: Vec<Raw>,
}

impl Arguments {
    fn new(bubblewrap: &Bubblewrap) -> Self {
        let mut arguments = Arguments {
            words: vec![bubblewrap.path.clone().into()],
            sources: Vec::new(),
        };
        arguments.namespaces(bubblewrap.capability);
        arguments
    }

    /// Bubblewrap creates only the namespaces, and shows the root of the host. The helper inside
    /// makes the mounts as in the native backend, so links are treated in the same way.
    fn with_host_root(bubblewrap: &Bubblewrap, mode: &str) -> Self {
        let mut arguments = Arguments::new(bubblewrap);
        arguments.add("--dev-bind", ["/", "/"]);
        arguments.words.push("--".into());
        let command = [
            bubblewrap.helper_files.binary.as_os_str(),
            helper::NAME.as_ref(),
            mode.as_ref(),
        ];
        arguments.words.extend(command.map(OsStr::to_owned));
        arguments
    }

    /// Bubblewrap makes the mounts, because the helper inside may not.
    fn with_mounts(confinement: &Confinement, bubblewrap: &Bubblewrap) -> Self {
        let mut arguments = Arguments::new(bubblewrap);
        for mount in &confinement.mounts {
            arguments.mount(mount);
        }
        bubblewrap.helper_files.binds(&mut arguments);
        // Made read-only last, because the mounts above create files in them.
        for mount in &confinement.mounts {
            if matches!(
                mount.what,
                MountKind::Dev { .. } | MountKind::Proc | MountKind::Empty
            ) {
                arguments.add("--remount-ro", [mount.at.0.as_os_str()]);
            }
        }
        arguments.add("--remount-ro", ["/"]);
        arguments.words.push("--".into());
        arguments.words.extend(bubblewrap.helper_files.command());
        arguments
    }

    fn add<T: AsRef<OsStr>>(&mut self, option: &str, values: impl IntoIterator<Item = T>) {
        self.words.push(option.into());
        self.words
            .extend(values.into_iter().map(|v| v.as_ref().to_owned()));
    }

    /// Mounts a path of the host by a descriptor, so that it cannot be exchanged in between.
    fn bind(&mut self, source: &Path, at: &Path, writable: bool) {
        let option = if writable {
            "--bind-fd"
        } else {
            "--ro-bind-fd"
        };
        let number = FIRST_SOURCE_FD as usize + self.sources.len();
        self.sources.push(Raw::from(source));
        self.add(option, [OsStr::new(&number.to_string()), at.as_os_str()]);
    }

    /// Without `--new-session`: the inner stage starts a session, and takes over the terminal if
    /// there is one.
    fn namespaces(&mut self, capability: HelperCapability) {
        for option in [
            "--unshare-user",
            "--unshare-pid",
            "--as-pid-1",
            "--unshare-net",
            "--unshare-ipc",
            "--unshare-cgroup-try",
            "--die-with-parent",
        ] {
            self.words.push(option.into());
        }
        // SAFETY: no arguments, cannot fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        self.add("--uid", [user.to_string()]);
        self.add("--gid", [group.to_string()]);
        self.add("--cap-drop", ["ALL"]);
        match capability {
            // Disabling user namespaces would put the helper into a second one, where it cannot
            // change the mounts. Its seccomp filter blocks them instead.
            HelperCapability::Mounts => {
                self.add("--cap-add", ["CAP_SYS_ADMIN"]);
                // Needed to reserve names in a directory that its owner has made read-only. The
                // program could make it writable again.
                self.add("--cap-add", ["CAP_DAC_OVERRIDE"]);
                // Needed to drop the other capabilities for good.
                self.add("--cap-add", ["CAP_SETPCAP"]);
            }
            HelperCapability::LandlockOnly => self.words.push("--disable-userns".into()),
        }
    }

    fn mount(&mut self, mount: &Mount) {
        let at = mount.at.0.as_os_str();
        match &mount.what {
            MountKind::Bind {
                source, writable, ..
            } => self.bind(source.path(), mount.at.path(), *writable),
            MountKind::Private { size, .. } => self.tmpfs("0700", *size, at),
            MountKind::Empty => self.tmpfs("0755", 1 << 20, at),
            MountKind::Directory => self.add("--dir", [at]),
            MountKind::Symlink { to } => self.add("--symlink", [to.0.as_os_str(), at]),
            MountKind::Proc => self.add("--proc", [at]),
            MountKind::Dev { size } => {
                self.add("--dev", [at]);
                let shared = mount.at.path().join("shm");
                self.tmpfs("1777", *size, shared.as_os_str());
            }
            MountKind::Mask { directory: true } => {
                self.tmpfs("0000", 1 << 20, at);
                self.add("--remount-ro", [at]);
            }
            MountKind::Reserved => {
                self.tmpfs("0555", 1 << 20, at);
                self.add("--remount-ro", [at]);
            }
            // The guard has created the file.
            MountKind::ReservedFile { source, .. } => {
                self.bind(source.path(), mount.at.path(), false);
            }
            // A device on a mount without devices cannot be opened.
            MountKind::Mask { directory: false } => {
                self.add("--ro-bind", ["/dev/null".as_ref(), at]);
            }
        }
    }

    fn tmpfs(&mut self, mode: &str, size: u64, at: &OsStr) {
        self.add("--perms", [mode]);
        self.add("--size", [size.to_string()]);
        self.add("--tmpfs", [at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Seccomp;

    fn bubblewrap(capability: HelperCapability) -> Bubblewrap {
        Bubblewrap {
            path: PathBuf::from("/usr/bin/bwrap"),
            version: "0.8.0".to_owned(),
            capability,
            helper_files: HelperFiles::parse(
                PathBuf::from("/opt/agentproto"),
                "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld.so.2 (0x3)\n",
            ),
        }
    }

    fn native(seccomp: Seccomp) -> SpawnPlan {
        let mount = |at: &str, what| Mount {
            at: Raw::from(at),
            what,
        };
        SpawnPlan {
            kind: PlanKind::Native,
            argv: vec![Raw::from("/usr/bin/x")],
            env: vec![],
            cwd: Raw::from("/w"),
            tty: true,
            no_stdin: false,
            linger_ms: 0,
            rlimits: vec![],
            cgroups: vec![Raw::from("/g/cgroup.procs")],
            leftovers: vec![Raw::from("/g")],
            confinement: Some(Confinement {
                mounts: vec![
                    mount(
                        "/w",
                        MountKind::Bind {
                            source: Raw::from("/home/w"),
                            writable: true,
                            exec: false,
                        },
                    ),
                    mount("/w/a", MountKind::Mask { directory: false }),
                    mount("/w/b", MountKind::Mask { directory: true }),
                    mount(
                        "/w/c",
                        MountKind::ReservedFile {
                            source: Raw::from("/home/w/c"),
                            text: String::new(),
                        },
                    ),
                    mount("/dev", MountKind::Dev { size: 4096 }),
                ],
                seccomp,
                ..Confinement::default()
            }),
            sources: vec![],
            source_identities: vec![],
            inner: None,
        }
    }

    fn line(plan: &SpawnPlan) -> String {
        let words: Vec<_> = plan.argv.iter().map(|w| w.0.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn the_helper_inside_makes_the_mounts_if_it_may() {
        let plan = plan(
            native(Seccomp::default()),
            &bubblewrap(HelperCapability::Mounts),
        )
        .expect("plan");
        assert_eq!((plan.kind, plan.tty), (PlanKind::Guard, true));
        assert_eq!(plan.leftovers.len(), 1);
        let text = line(&plan);
        for part in [
            "/usr/bin/bwrap --unshare-user --unshare-pid --as-pid-1 --unshare-net",
            "--cap-drop ALL --cap-add CAP_SYS_ADMIN --cap-add CAP_DAC_OVERRIDE --cap-add CAP_SETPCAP",
            "--dev-bind / / -- /opt/agentproto agentproto-helper inside",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(plan.sources.is_empty() && !text.contains("/home/w"));
        let inner = plan.inner.expect("inner");
        assert_eq!((inner.kind, inner.tty), (PlanKind::Inner, true));
        assert!(inner.leftovers.is_empty() && inner.cgroups.is_empty());
        assert_eq!(inner.confinement.expect("kept").mounts.len(), 5);
    }

    #[test]
    fn otherwise_bubblewrap_mounts_by_descriptor() {
        let listed = Seccomp {
            no_fork: false,
            no_memory_exec: true,
        };
        let weak = bubblewrap(HelperCapability::LandlockOnly);
        assert_eq!(plan(native(listed), &weak).err(), Some(BwrapError::Exec));
        let open = plan(native(Seccomp::default()), &weak).expect("plan");
        let text = line(&open);
        for part in [
            "--cap-drop ALL --disable-userns",
            "--bind-fd 100 /w --ro-bind /dev/null /w/a --perms 0000 --size 1048576 --tmpfs /w/b --remount-ro /w/b --ro-bind-fd 101 /w/c",
            "--dev /dev --perms 1777 --size 4096 --tmpfs /dev/shm",
            "--ro-bind-fd 102 /.agentproto/agentproto-helper",
            "--ro-bind-fd 104 /.agentproto/lib/libc.so.6",
            "--remount-ro /dev --remount-ro / -- /.agentproto/loader --argv0 agentproto-helper",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let sources: Vec<_> = open.sources.iter().map(|s| s.path()).collect();
        assert_eq!(sources[..2], ["/home/w", "/home/w/c"].map(Path::new));
        let inner = open.inner.expect("inner");
        assert_eq!(inner.kind, PlanKind::InnerMounted);
        assert_eq!(inner.confinement.expect("kept").mounts.len(), 5);
    }

    #[test]
    fn a_static_helper_is_found_by_its_name() {
        let helper_files = HelperFiles::parse(PathBuf::from("/opt/agentproto"), "[]\n");
        assert_eq!(helper_files.command(), ["agentproto-helper"]);
    }
}
