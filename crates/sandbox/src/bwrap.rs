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

use super::plan::{Confinement, Mount, MountKind, PlanKind, Raw, SpawnPlan};
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
    /// The helper can restrict mounts inside.
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
    fn binds(&self, arguments: &mut Vec<OsString>) {
        let helper_dir = Path::new(HELPER_DIR);
        let mut bind = |from: &Path, to: PathBuf| {
            arguments.extend(["--ro-bind".into(), from.into(), to.into()]);
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
    let Some(confinement) = &mut plan.confinement else {
        return Err(BwrapError::Unconfined);
    };
    if confinement.seccomp.no_memory_exec {
        bubblewrap.check_exec_lists()?;
    }
    let argv = arguments(confinement, bubblewrap);
    if bubblewrap.capability == HelperCapability::LandlockOnly {
        confinement.mounts.clear();
    }
    Ok(SpawnPlan {
        kind: PlanKind::Guard,
        argv: argv.into_iter().map(Raw::from).collect(),
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
        inner: Some(Box::new(SpawnPlan {
            kind: PlanKind::Inner,
            ..plan
        })),
    })
}

fn arguments(confinement: &Confinement, bubblewrap: &Bubblewrap) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec![bubblewrap.path.clone().into()];
    namespaces(bubblewrap.capability, &mut all);
    for mount in &confinement.mounts {
        mount_arguments(mount, bubblewrap.capability, &mut all);
    }
    bubblewrap.helper_files.binds(&mut all);
    // Made read-only last, because the mounts above create files in them.
    for mount in &confinement.mounts {
        if matches!(mount.what, MountKind::Dev | MountKind::Proc) {
            add(&mut all, "--remount-ro", [mount.at.0.as_os_str()]);
        }
    }
    add(&mut all, "--remount-ro", ["/"]);
    all.push("--".into());
    all.extend(bubblewrap.helper_files.command());
    all
}

/// The command line of a trial: like a real one, but with only the helper in the root.
pub fn trial_arguments(
    path: &Path,
    capability: HelperCapability,
    helper_files: &HelperFiles,
    mode: &str,
) -> Vec<OsString> {
    let mounts = [("/proc", MountKind::Proc), ("/dev", MountKind::Dev)].map(|(at, what)| Mount {
        at: Raw::from(at),
        what,
    });
    let confinement = Confinement {
        mounts: mounts.into(),
        ..Confinement::default()
    };
    let bubblewrap = Bubblewrap {
        path: path.to_owned(),
        version: String::new(),
        capability,
        helper_files: helper_files.clone(),
    };
    let mut all = arguments(&confinement, &bubblewrap);
    all.push(mode.into());
    all
}

fn add<T: AsRef<OsStr>>(
    all: &mut Vec<OsString>,
    option: &str,
    values: impl IntoIterator<Item = T>,
) {
    all.push(option.into());
    all.extend(values.into_iter().map(|v| v.as_ref().to_owned()));
}

/// Without `--new-session`: the inner stage starts a session, and takes over the terminal if there
/// is one.
fn namespaces(capability: HelperCapability, all: &mut Vec<OsString>) {
    for option in [
        "--unshare-user",
        "--unshare-pid",
        "--as-pid-1",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-cgroup-try",
        "--die-with-parent",
    ] {
        all.push(option.into());
    }
    // SAFETY: no arguments, cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    add(all, "--uid", [user.to_string()]);
    add(all, "--gid", [group.to_string()]);
    add(all, "--cap-drop", ["ALL"]);
    match capability {
        // Disabling user namespaces would put the helper into a second one, where it cannot change
        // the mounts. Its seccomp filter blocks them instead.
        HelperCapability::Mounts => {
            add(all, "--cap-add", ["CAP_SYS_ADMIN"]);
            // Needed to drop the other capability for good.
            add(all, "--cap-add", ["CAP_SETPCAP"]);
        }
        HelperCapability::LandlockOnly => all.push("--disable-userns".into()),
    }
}

fn mount_arguments(mount: &Mount, capability: HelperCapability, all: &mut Vec<OsString>) {
    let at = mount.at.0.as_os_str();
    match &mount.what {
        MountKind::Bind {
            source, writable, ..
        } => {
            let option = if *writable { "--bind" } else { "--ro-bind" };
            add(all, option, [source.0.as_os_str(), at]);
        }
        MountKind::Private { .. } => {
            add(all, "--perms", ["0700"]);
            add(all, "--tmpfs", [at]);
        }
        MountKind::Directory => add(all, "--dir", [at]),
        MountKind::Symlink { to } => add(all, "--symlink", [to.0.as_os_str(), at]),
        MountKind::Proc => add(all, "--proc", [at]),
        MountKind::Dev => devices(mount.at.path(), capability, all),
        MountKind::Mask { directory: true } => {
            add(all, "--perms", ["0000"]);
            add(all, "--tmpfs", [at]);
            add(all, "--remount-ro", [at]);
        }
        // A device on a mount without devices cannot be opened.
        MountKind::Mask { directory: false } => {
            add(all, "--ro-bind", ["/dev/null".as_ref(), at]);
        }
    }
}

fn devices(at: &Path, capability: HelperCapability, all: &mut Vec<OsString>) {
    let below = |name: &str| at.join(name).into_os_string();
    match capability {
        HelperCapability::LandlockOnly => add(all, "--dev", [at]),
        // Bubblewrap's `--dev` needs a second user namespace. The helper mounts the terminals.
        HelperCapability::Mounts => {
            add(all, "--tmpfs", [at]);
            for name in ["null", "zero", "full", "random", "urandom", "tty"] {
                let host = Path::new("/dev").join(name).into_os_string();
                add(all, "--dev-bind-try", [host, below(name)]);
            }
            for (name, to) in [
                ("fd", "/proc/self/fd"),
                ("stdin", "/proc/self/fd/0"),
                ("stdout", "/proc/self/fd/1"),
                ("stderr", "/proc/self/fd/2"),
                ("ptmx", "pts/ptmx"),
            ] {
                add(all, "--symlink", [to.into(), below(name)]);
            }
            add(all, "--dir", [below("pts")]);
        }
    }
    add(all, "--perms", ["1777"]);
    add(all, "--tmpfs", [below("shm")]);
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
                    mount("/dev", MountKind::Dev),
                ],
                seccomp,
                ..Confinement::default()
            }),
            inner: None,
        }
    }

    fn line(plan: &SpawnPlan) -> String {
        let words: Vec<_> = plan.argv.iter().map(|w| w.0.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn the_guard_runs_bubblewrap_and_the_inner_plan_the_target() {
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
            "--cap-drop ALL --cap-add CAP_SYS_ADMIN --cap-add CAP_SETPCAP",
            "--bind /home/w /w --ro-bind /dev/null /w/a --perms 0000 --tmpfs /w/b --remount-ro /w/b",
            "--ro-bind /opt/agentproto /.agentproto/agentproto-helper",
            "--ro-bind /lib/libc.so.6 /.agentproto/lib/libc.so.6",
            "--remount-ro /dev --remount-ro / -- /.agentproto/loader --argv0 agentproto-helper",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let inner = plan.inner.expect("inner");
        assert_eq!((inner.kind, inner.tty), (PlanKind::Inner, true));
        assert!(inner.leftovers.is_empty() && inner.cgroups.is_empty());
        assert_eq!(inner.confinement.expect("kept").mounts.len(), 4);
    }

    #[test]
    fn without_mount_power_a_list_of_programs_is_refused() {
        let listed = Seccomp {
            no_fork: false,
            no_memory_exec: true,
        };
        let weak = bubblewrap(HelperCapability::LandlockOnly);
        assert_eq!(plan(native(listed), &weak).err(), Some(BwrapError::Exec));
        let open = plan(native(Seccomp::default()), &weak).expect("plan");
        assert!(line(&open).contains("--cap-drop ALL --disable-userns"));
        assert!(line(&open).contains("--dev /dev"));
        let inner = open.inner.expect("inner");
        assert!(inner.confinement.expect("kept").mounts.is_empty());
    }

    #[test]
    fn a_static_helper_is_found_by_its_name() {
        let helper_files = HelperFiles::parse(PathBuf::from("/opt/agentproto"), "[]\n");
        assert_eq!(helper_files.command(), ["agentproto-helper"]);
    }
}
