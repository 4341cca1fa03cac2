//! What this machine supports. Each feature is tested by using it, once per process and only on
//! demand. Errors and `doctor` use the results.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::Serialize;

use super::bwrap::{self, Bubblewrap, HelperCapability, HelperFiles};
use super::limits::cgroup::{self, CgroupParent, CgroupParents, CgroupVersion};
use crate::helper::{self, trial};

/// Whether this machine supports a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Availability {
    /// The feature works.
    Available {
        /// Detail, such as a version.
        detail: String,
    },
    /// The feature does not work.
    Missing {
        /// The reason.
        why: String,
        /// What to do.
        help: String,
    },
}

impl Availability {
    /// A feature that works.
    pub fn available(detail: impl Into<String>) -> Self {
        Self::Available {
            detail: detail.into(),
        }
    }
    /// A feature that does not work.
    pub fn missing(why: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Missing {
            why: why.into(),
            help: help.into(),
        }
    }
    /// Whether the feature works.
    pub fn is_available(&self) -> bool {
        matches!(self, Self::Available { .. })
    }
}

/// What the kernel and its settings allow for this user.
#[derive(Clone, Debug, Serialize)]
pub struct HostFeatures {
    /// Release of the kernel.
    pub kernel: String,
    /// Whether this process runs as root.
    pub root: bool,
    /// Landlock version, or 0 without Landlock.
    pub landlock_abi: u32,
    /// Landlock.
    pub landlock: Availability,
    /// seccomp filters.
    pub seccomp: Availability,
    /// Process descriptors.
    pub pidfd: Availability,
    /// User namespaces.
    pub user_namespaces: Availability,
    /// Mount namespaces.
    pub mount_namespaces: Availability,
    /// Process namespaces.
    pub process_namespaces: Availability,
    /// Network namespaces.
    pub network_namespaces: Availability,
    /// IPC namespaces.
    pub ipc_namespaces: Availability,
    /// Mounting a new `/proc`.
    pub fresh_proc: Availability,
    /// Changing the attributes of mounts.
    pub mount_api: Availability,
    /// Control groups.
    pub cgroups: CgroupParents,
}

/// A feature of this machine as reports show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// Name of the feature.
    pub item: &'static str,
    /// Whether it works.
    pub available: bool,
    /// Detail if it works, otherwise the reason.
    pub text: String,
    /// What to do if it does not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Feature {
    /// Names a tested feature.
    pub fn new(item: &'static str, availability: &Availability) -> Self {
        let (text, help) = match availability {
            Availability::Available { detail } => (detail.clone(), None),
            Availability::Missing { why, help } => (why.clone(), Some(help.clone())),
        };
        Self {
            item,
            available: availability.is_available(),
            text,
            help,
        }
    }
}

/// All results except bubblewrap, which needs another process and is tested separately.
pub fn probe() -> &'static HostFeatures {
    static PROBE: OnceLock<HostFeatures> = OnceLock::new();
    PROBE.get_or_init(probe_host)
}

impl HostFeatures {
    /// Returns an error with the first feature that the native backend needs and that is missing.
    pub fn check_native(&self) -> Result<(), Feature> {
        match self.native_features().into_iter().find(|f| !f.available) {
            Some(feature) => Err(feature),
            None => Ok(()),
        }
    }

    fn native_features(&self) -> Vec<Feature> {
        [
            ("Landlock", &self.landlock),
            ("seccomp", &self.seccomp),
            ("pidfd", &self.pidfd),
            ("user namespaces", &self.user_namespaces),
            ("mount namespaces", &self.mount_namespaces),
            ("process namespaces", &self.process_namespaces),
            ("network namespaces", &self.network_namespaces),
            ("IPC namespaces", &self.ipc_namespaces),
            ("new /proc mount", &self.fresh_proc),
            ("mount attributes", &self.mount_api),
        ]
        .map(|(item, availability)| Feature::new(item, availability))
        .to_vec()
    }

    /// All features, including control groups.
    pub fn features(&self) -> Vec<Feature> {
        let mut features = self.native_features();
        for (item, group) in [
            ("memory limits", &self.cgroups.memory),
            ("process limits", &self.cgroups.pids),
            ("CPU time limits", &self.cgroups.cpu),
        ] {
            features.push(Feature::new(item, &cgroup_availability(group)));
        }
        features
    }
}

fn cgroup_availability(group: &Result<CgroupParent, String>) -> Availability {
    match group {
        Ok(group) => {
            let version = match group.version {
                CgroupVersion::V1 => 1,
                CgroupVersion::V2 => 2,
            };
            let dir = group.dir.display();
            Availability::available(format!("available, with cgroup v{version} at {dir}"))
        }
        Err(why) => Availability::missing(
            format!("{why}; resource limits (setrlimit) are used instead"),
            "run in a systemd user session, or where a writable cgroup is delegated",
        ),
    }
}

fn probe_host() -> HostFeatures {
    let trials = trials();
    let of = |what, name: &str| match &trials {
        Err(error) => Availability::missing(
            format!("cannot be tested: {error}"),
            "make sure that the agentproto binary can be executed",
        ),
        Ok(trials) => match trials.iter().find(|t| t.what == what) {
            Some(trial) if trial.errno == 0 => Availability::available("available"),
            Some(trial) => unavailable(what, trial.errno),
            None => Availability::missing(
                format!("cannot be tested: {name} need a feature that is missing above"),
                "see the first missing feature",
            ),
        },
    };
    let landlock_abi = helper::landlock_abi();
    HostFeatures {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_owned(),
        // SAFETY: no arguments, cannot fail.
        root: unsafe { libc::geteuid() } == 0,
        landlock_abi,
        landlock: landlock(landlock_abi),
        seccomp: seccomp(),
        pidfd: pidfd(),
        user_namespaces: of(trial::KernelFeature::UserNamespace, "user namespaces"),
        mount_namespaces: of(trial::KernelFeature::MountNamespace, "mount namespaces"),
        process_namespaces: of(trial::KernelFeature::ProcessNamespace, "process namespaces"),
        network_namespaces: of(trial::KernelFeature::NetworkNamespace, "network namespaces"),
        ipc_namespaces: of(trial::KernelFeature::IpcNamespace, "IPC namespaces"),
        fresh_proc: of(trial::KernelFeature::FreshProc, "new /proc mounts"),
        mount_api: of(trial::KernelFeature::MountApi, "mount attributes"),
        cgroups: cgroup::parents().clone(),
    }
}

fn helper_command(word: &str) -> io::Result<Command> {
    let mut command = Command::new(helper::binary()?);
    command
        .arg0(helper::NAME)
        .arg(word)
        .env_clear()
        .stdin(Stdio::null());
    Ok(command)
}

fn trials() -> io::Result<Vec<trial::FeatureTrial>> {
    let output = helper_command(trial::MODE)?.output()?;
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

/// Any version is sufficient: Landlock limits execution, and everything else is also limited by
/// other means.
fn landlock(abi: u32) -> Availability {
    if abi > 0 {
        return Availability::available(format!("ABI version {abi}"));
    }
    let active = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    if !active.is_empty() && !active.contains("landlock") {
        return Availability::missing(
            format!("not enabled (active: {})", active.trim()),
            "add `landlock` to the kernel parameter `lsm=`",
        );
    }
    Availability::missing(
        "not supported by this kernel",
        "use kernel 5.13 or newer with Landlock",
    )
}

fn seccomp() -> Availability {
    if !helper::seccomp_supported() {
        return Availability::missing("not supported on this processor", "use x86_64 or aarch64");
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if status.lines().any(|line| line.starts_with("Seccomp:")) {
        Availability::available("filters can be installed")
    } else {
        Availability::missing(
            "not supported by this kernel",
            "use a kernel with CONFIG_SECCOMP_FILTER",
        )
    }
}

fn pidfd() -> Availability {
    // SAFETY: plain numbers; the descriptor, if any, is ours and closed at once.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    if fd < 0 {
        return Availability::missing(
            io::Error::last_os_error().to_string(),
            "use kernel 5.3 or newer",
        );
    }
    // SAFETY: as above.
    unsafe { libc::close(fd as i32) };
    Availability::available("available")
}

fn unavailable(what: trial::KernelFeature, errno: i32) -> Availability {
    let error = io::Error::from_raw_os_error(errno);
    match what {
        trial::KernelFeature::UserNamespace => user_namespaces_unavailable(&error),
        trial::KernelFeature::MountApi if errno == libc::ENOSYS => Availability::missing(
            "this kernel does not support mount_setattr",
            "use kernel 5.12 or newer",
        ),
        trial::KernelFeature::FreshProc if errno == libc::EPERM => Availability::missing(
            "parts of the host's /proc are masked, as in a container",
            "start the container with an unmasked /proc (`--security-opt systempaths=unconfined`)",
        ),
        _ if restricted_by_apparmor() => apparmor(),
        _ => Availability::missing(
            error.to_string(),
            "allow it for this user, or run outside the container that blocks it",
        ),
    }
}

fn sysctl(name: &str) -> Option<u64> {
    let path = Path::new("/proc/sys").join(name);
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn restricted_by_apparmor() -> bool {
    sysctl("kernel/apparmor_restrict_unprivileged_userns") == Some(1)
}

fn apparmor() -> Availability {
    Availability::missing(
        "AppArmor restricts user namespaces \
         (kernel.apparmor_restrict_unprivileged_userns=1)",
        "give this binary an AppArmor profile with `userns,`, or set this setting to 0",
    )
}

fn user_namespaces_unavailable(error: &io::Error) -> Availability {
    if sysctl("user/max_user_namespaces") == Some(0) {
        return Availability::missing(
            "disabled (user.max_user_namespaces=0)",
            "set user.max_user_namespaces to a number such as 10000",
        );
    }
    if sysctl("kernel/unprivileged_userns_clone") == Some(0) {
        return Availability::missing(
            "only for root (kernel.unprivileged_userns_clone=0)",
            "set kernel.unprivileged_userns_clone to 1",
        );
    }
    if restricted_by_apparmor() {
        return apparmor();
    }
    if error.raw_os_error() == Some(libc::ENOSPC) {
        return Availability::missing(
            "the limit is reached (user.max_user_namespaces), or this process may not create any",
            "raise user.max_user_namespaces, or run outside the sandbox around this process",
        );
    }
    Availability::missing(
        error.to_string(),
        "allow user namespaces; a container's seccomp profile often blocks them",
    )
}

// --- bubblewrap ---------------------------------------------------------------------------

/// The oldest version that can disable user namespaces inside.
const MIN_BUBBLEWRAP_VERSION: (u32, u32) = (0, 8);

/// The tested bubblewrap of this machine, or what is wrong with it.
pub fn bubblewrap() -> Result<&'static Bubblewrap, &'static Feature> {
    static FOUND: OnceLock<Result<Bubblewrap, Feature>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        find_bubblewrap().map_err(|availability| Feature::new("bubblewrap", &availability))
    });
    found.as_ref()
}

/// Bubblewrap as reports show it.
pub fn bubblewrap_feature() -> Feature {
    match bubblewrap() {
        Err(line) => line.clone(),
        Ok(found) => {
            let capability = match found.capability {
                HelperCapability::Mounts => "",
                HelperCapability::LandlockOnly => "; it cannot enforce lists of programs here",
            };
            let text = format!("{} {}{capability}", found.path.display(), found.version);
            Feature::new("bubblewrap", &Availability::available(text))
        }
    }
}

fn find_bubblewrap() -> Result<Bubblewrap, Availability> {
    let install = "install bubblewrap 0.8 or newer";
    let search_path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let path =
        search("bwrap", &search_path).ok_or_else(|| Availability::missing("not found", install))?;
    let printed = Command::new(&path)
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Availability::missing(format!("{}: {error}", path.display()), install))?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let version = printed
        .split_whitespace()
        .last()
        .unwrap_or_default()
        .to_owned();
    if version_of(&version) < Some(MIN_BUBBLEWRAP_VERSION) {
        let why = format!("{} is version {version}", path.display());
        return Err(Availability::missing(why, install));
    }
    let helper_files = helper_files().map_err(|error| {
        let why = format!("the agentproto binary cannot be inspected: {error}");
        Availability::missing(why, "reinstall agentproto")
    })?;
    let mut why = String::new();
    for capability in [HelperCapability::Mounts, HelperCapability::LandlockOnly] {
        if capability == HelperCapability::LandlockOnly {
            // SAFETY: no arguments, cannot fail.
            if unsafe { libc::geteuid() } == 0 {
                break;
            }
            check_own_mounts(&path, &version)?;
        }
        match try_bubblewrap(&path, capability, &helper_files) {
            Ok(()) => {
                return Ok(Bubblewrap {
                    path,
                    version,
                    capability,
                    helper_files,
                });
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(Availability::missing(
        format!("{} does not work: {why}", path.display()),
        "allow user namespaces for bubblewrap; see the item `user namespaces`",
    ))
}

/// Whether bubblewrap can be trusted to make mounts in directories that another sandboxed program
/// writes to. It must mount by descriptor, and must not create directories through links.
fn check_own_mounts(path: &Path, version: &str) -> Result<(), Availability> {
    let shown = path.display();
    let update = "update bubblewrap to 0.12 or newer, or allow user namespaces for agentproto";
    let help = Command::new(path).arg("--help").env_clear().output();
    let help = help.map(|output| output.stdout).unwrap_or_default();
    if !String::from_utf8_lossy(&help).contains("--bind-fd") {
        let why = format!("{shown} {version} cannot mount by descriptor (CVE-2024-42472)");
        return Err(Availability::missing(why, update));
    }
    match follows_links(path) {
        Ok(false) => Ok(()),
        Ok(true) => {
            let why =
                format!("{shown} {version} creates directories through links (CVE-2026-87766)");
            Err(Availability::missing(why, update))
        }
        Err(error) => {
            let why = format!("{shown} {version} cannot be tested for CVE-2026-87766: {error}");
            Err(Availability::missing(why, update))
        }
    }
}

/// Whether bubblewrap creates a directory outside the sandbox through a link inside it.
fn follows_links(path: &Path) -> io::Result<bool> {
    let dir = tempfile::tempdir()?;
    let root = dir.path().canonicalize()?;
    let (inside, outside) = (root.join("inside"), root.join("outside"));
    fs::create_dir(&inside)?;
    fs::create_dir(&outside)?;
    let mut link = std::ffi::OsString::from("/oldroot");
    link.push(&outside);
    std::os::unix::fs::symlink(link, inside.join("link"))?;
    let run = |extra: &[&str]| {
        let mut command = Command::new(path);
        command.args(["--unshare-user", "--dev-bind", "/", "/", "--bind"]);
        command.arg(&inside).arg("/mnt").args(extra);
        let command = command.args(["--", "/bin/true"]).env_clear();
        command.stdin(Stdio::null()).output()
    };
    // Without the link it must work, so that a failure with the link means something.
    let plain = run(&[])?;
    if !plain.status.success() {
        let stderr = String::from_utf8_lossy(&plain.stderr).trim().to_owned();
        return Err(io::Error::other(stderr));
    }
    run(&["--dir", "/mnt/link/made"])?;
    Ok(outside.join("made").exists())
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The helper's binary, and what its loader would load for it.
fn helper_files() -> io::Result<HelperFiles> {
    let binary = fs::canonicalize(helper::binary()?)?;
    let mut command = helper_command(trial::MODE)?;
    let list = command.env("LD_TRACE_LOADED_OBJECTS", "1").output()?;
    Ok(HelperFiles::parse(
        binary,
        &String::from_utf8_lossy(&list.stdout),
    ))
}

fn try_bubblewrap(
    path: &Path,
    capability: HelperCapability,
    helper_files: &HelperFiles,
) -> io::Result<()> {
    let (line, sources) =
        bwrap::trial_arguments(path, capability, helper_files, trial::MODE_INSIDE);
    let mut command = Command::new(path);
    command
        .args(line.iter().skip(1))
        .env_clear()
        .envs(bwrap::ENVIRONMENT)
        .stdin(Stdio::null());
    let sources = helper::open_sources(&sources)?;
    // SAFETY: only system calls that are safe after a fork.
    unsafe { command.pre_exec(move || helper::move_sources(&sources)) };
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match (printed.trim(), capability) {
        ("ok", _) => Ok(()),
        ("", _) => {
            let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(io::Error::other(stderr))
        }
        // It ran without the capability, as requested.
        (_, HelperCapability::LandlockOnly) => Ok(()),
        (refusal, HelperCapability::Mounts) => Err(io::Error::other(refusal.to_owned())),
    }
}

/// The first file with this name on a search path. Relative entries depend on the working directory
/// and are skipped.
fn search(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_item_has_a_reason_and_a_fix() {
        for errno in [libc::EPERM, libc::ENOSPC, libc::ENOSYS] {
            for what in [
                trial::KernelFeature::UserNamespace,
                trial::KernelFeature::MountApi,
                trial::KernelFeature::FreshProc,
                trial::KernelFeature::NetworkNamespace,
            ] {
                let Availability::Missing { why, help } = unavailable(what, errno) else {
                    panic!("{what:?} is available");
                };
                assert!(!why.is_empty() && !help.is_empty());
            }
        }
    }
}
