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

use super::bwrap::{self, Bubblewrap, Inside, Power};
use super::limits::cgroup::{self, Place, Places, Version};
use crate::helper::{self, trial};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Finding {
    Available { detail: String },
    Missing { why: String, help: String },
}

impl Finding {
    pub fn yes(detail: impl Into<String>) -> Self {
        Self::Available {
            detail: detail.into(),
        }
    }
    pub fn no(why: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Missing {
            why: why.into(),
            help: help.into(),
        }
    }
    pub fn is_available(&self) -> bool {
        matches!(self, Self::Available { .. })
    }
}

/// What the kernel and its settings allow for this user.
#[derive(Clone, Debug, Serialize)]
pub struct Probe {
    pub kernel: String,
    pub root: bool,
    pub landlock_abi: u32,
    pub landlock: Finding,
    pub seccomp: Finding,
    pub pidfd: Finding,
    pub user_namespaces: Finding,
    pub mount_namespaces: Finding,
    pub process_namespaces: Finding,
    pub network_namespaces: Finding,
    pub ipc_namespaces: Finding,
    pub fresh_proc: Finding,
    pub mount_api: Finding,
    pub cgroups: Places,
}

/// One item for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    pub item: &'static str,
    pub available: bool,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Line {
    pub fn new(item: &'static str, finding: &Finding) -> Self {
        let (text, help) = match finding {
            Finding::Available { detail } => (detail.clone(), None),
            Finding::Missing { why, help } => (why.clone(), Some(help.clone())),
        };
        Self {
            item,
            available: finding.is_available(),
            text,
            help,
        }
    }
}

/// All results except bubblewrap, which needs another process and is tested separately.
pub fn probe() -> &'static Probe {
    static PROBE: OnceLock<Probe> = OnceLock::new();
    PROBE.get_or_init(measure)
}

impl Probe {
    /// Returns an error with the first feature that the native backend needs and that is missing.
    pub fn native(&self) -> Result<(), Line> {
        match self.native_items().into_iter().find(|l| !l.available) {
            Some(lacking) => Err(lacking),
            None => Ok(()),
        }
    }

    fn native_items(&self) -> Vec<Line> {
        [
            ("Landlock", &self.landlock),
            ("seccomp", &self.seccomp),
            ("pidfd", &self.pidfd),
            ("user namespaces", &self.user_namespaces),
            ("mount namespaces", &self.mount_namespaces),
            ("process namespaces", &self.process_namespaces),
            ("network namespaces", &self.network_namespaces),
            ("IPC namespaces", &self.ipc_namespaces),
            ("a fresh /proc", &self.fresh_proc),
            ("mount attributes", &self.mount_api),
        ]
        .map(|(item, finding)| Line::new(item, finding))
        .to_vec()
    }

    /// One line per item, including control groups.
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = self.native_items();
        for (item, place) in [
            ("memory limits", &self.cgroups.memory),
            ("process limits", &self.cgroups.pids),
            ("processor time", &self.cgroups.cpu),
        ] {
            lines.push(Line::new(item, &group_finding(place)));
        }
        lines
    }
}

fn group_finding(place: &Result<Place, String>) -> Finding {
    match place {
        Ok(place) => {
            let version = match place.version {
                Version::V1 => 1,
                Version::V2 => 2,
            };
            let dir = place.dir.display();
            Finding::yes(format!("control group version {version} below {dir}"))
        }
        Err(why) => Finding::no(
            format!("{why}; resource limits are used instead"),
            "run in a systemd user session, or where a writable control group is delegated",
        ),
    }
}

fn measure() -> Probe {
    let trials = trials();
    let of = |what, name: &str| match &trials {
        Err(error) => Finding::no(
            format!("cannot be tested: {error}"),
            "make sure that the agentproto binary can be executed",
        ),
        Ok(trials) => match trials.iter().find(|t| t.what == what) {
            Some(trial) if trial.errno == 0 => Finding::yes("works"),
            Some(trial) => refused(what, trial.errno),
            None => Finding::no(
                format!("{name} need an item that is missing above"),
                "see the first missing item",
            ),
        },
    };
    let landlock_abi = helper::landlock_abi();
    Probe {
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
        user_namespaces: of(trial::What::UserNamespace, "user namespaces"),
        mount_namespaces: of(trial::What::MountNamespace, "mount namespaces"),
        process_namespaces: of(trial::What::ProcessNamespace, "process namespaces"),
        network_namespaces: of(trial::What::NetworkNamespace, "network namespaces"),
        ipc_namespaces: of(trial::What::IpcNamespace, "IPC namespaces"),
        fresh_proc: of(trial::What::FreshProc, "a fresh /proc"),
        mount_api: of(trial::What::MountApi, "mount attributes"),
        cgroups: cgroup::places().clone(),
    }
}

fn ask_helper(word: &str) -> io::Result<Command> {
    let mut command = Command::new(helper::binary()?);
    command
        .arg0(helper::NAME)
        .arg(word)
        .env_clear()
        .stdin(Stdio::null());
    Ok(command)
}

fn trials() -> io::Result<Vec<trial::Trial>> {
    let output = ask_helper(trial::WORD)?.output()?;
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

/// Any version is sufficient: Landlock limits execution, and everything else is also limited by
/// other means.
fn landlock(abi: u32) -> Finding {
    if abi > 0 {
        return Finding::yes(format!("version {abi}"));
    }
    let active = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    if !active.is_empty() && !active.contains("landlock") {
        return Finding::no(
            format!("not enabled (active: {})", active.trim()),
            "add `landlock` to the kernel parameter `lsm=`",
        );
    }
    Finding::no(
        "not supported by this kernel",
        "use kernel 5.13 or newer with Landlock",
    )
}

fn seccomp() -> Finding {
    if !helper::seccomp_supported() {
        return Finding::no("not supported on this processor", "use x86_64 or aarch64");
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if status.lines().any(|line| line.starts_with("Seccomp:")) {
        Finding::yes("filters can be installed")
    } else {
        Finding::no(
            "not supported by this kernel",
            "use a kernel with CONFIG_SECCOMP_FILTER",
        )
    }
}

fn pidfd() -> Finding {
    // SAFETY: plain numbers; the descriptor, if any, is ours and closed at once.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    if fd < 0 {
        return Finding::no(
            io::Error::last_os_error().to_string(),
            "use kernel 5.3 or newer",
        );
    }
    // SAFETY: as above.
    unsafe { libc::close(fd as i32) };
    Finding::yes("works")
}

fn refused(what: trial::What, errno: i32) -> Finding {
    let error = io::Error::from_raw_os_error(errno);
    match what {
        trial::What::UserNamespace => user_namespaces_refused(&error),
        trial::What::MountApi if errno == libc::ENOSYS => Finding::no(
            "this kernel does not support mount_setattr",
            "use kernel 5.12 or newer",
        ),
        trial::What::FreshProc if errno == libc::EPERM => Finding::no(
            "parts of the host's /proc are masked, as in a container",
            "start the container with an unmasked /proc (`--security-opt systempaths=unconfined`)",
        ),
        _ if restricted_by_apparmor() => apparmor(),
        _ => Finding::no(
            error.to_string(),
            "allow it for this user, or run outside the container that blocks it",
        ),
    }
}

fn setting(name: &str) -> Option<u64> {
    let path = Path::new("/proc/sys").join(name);
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn restricted_by_apparmor() -> bool {
    setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1)
}

fn apparmor() -> Finding {
    Finding::no(
        "AppArmor restricts user namespaces \
         (kernel.apparmor_restrict_unprivileged_userns=1)",
        "give this binary an AppArmor profile with `userns,`, or set this setting to 0",
    )
}

fn user_namespaces_refused(error: &io::Error) -> Finding {
    if setting("user/max_user_namespaces") == Some(0) {
        return Finding::no(
            "disabled (user.max_user_namespaces=0)",
            "set user.max_user_namespaces to a number such as 10000",
        );
    }
    if setting("kernel/unprivileged_userns_clone") == Some(0) {
        return Finding::no(
            "only for root (kernel.unprivileged_userns_clone=0)",
            "set kernel.unprivileged_userns_clone to 1",
        );
    }
    if restricted_by_apparmor() {
        return apparmor();
    }
    if error.raw_os_error() == Some(libc::ENOSPC) {
        return Finding::no(
            "the limit is reached (user.max_user_namespaces), or this process may not create any",
            "raise user.max_user_namespaces, or run outside the sandbox around this process",
        );
    }
    Finding::no(
        error.to_string(),
        "allow user namespaces; a container's seccomp profile often blocks them",
    )
}

// --- bubblewrap ---------------------------------------------------------------------------

/// The oldest version that can disable user namespaces inside.
const BUBBLEWRAP_LEAST: (u32, u32) = (0, 8);

/// The tested bubblewrap of this machine, or what is wrong with it.
pub fn bubblewrap() -> Result<&'static Bubblewrap, &'static Line> {
    static FOUND: OnceLock<Result<Bubblewrap, Line>> = OnceLock::new();
    let found = FOUND
        .get_or_init(|| find_bubblewrap().map_err(|finding| Line::new("bubblewrap", &finding)));
    found.as_ref()
}

/// The line for bubblewrap in a report.
pub fn bubblewrap_line() -> Line {
    match bubblewrap() {
        Err(line) => line.clone(),
        Ok(found) => {
            let power = match found.power {
                Power::Mounts => "",
                Power::LandlockOnly => "; it cannot enforce lists of programs here",
            };
            let text = format!("{} {}{power}", found.path.display(), found.version);
            Line::new("bubblewrap", &Finding::yes(text))
        }
    }
}

fn find_bubblewrap() -> Result<Bubblewrap, Finding> {
    let install = "install bubblewrap 0.8 or newer";
    let search_path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let path = search("bwrap", &search_path).ok_or_else(|| Finding::no("not found", install))?;
    let said = Command::new(&path)
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Finding::no(format!("{}: {error}", path.display()), install))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said
        .split_whitespace()
        .last()
        .unwrap_or_default()
        .to_owned();
    if version_of(&version) < Some(BUBBLEWRAP_LEAST) {
        let why = format!("{} is version {version}", path.display());
        return Err(Finding::no(why, install));
    }
    let inside = inside().map_err(|error| {
        let why = format!("the agentproto binary cannot be inspected: {error}");
        Finding::no(why, "reinstall agentproto")
    })?;
    let mut why = String::new();
    for power in [Power::Mounts, Power::LandlockOnly] {
        // SAFETY: no arguments, cannot fail.
        if power == Power::LandlockOnly && unsafe { libc::geteuid() } == 0 {
            break;
        }
        match try_bubblewrap(&path, power, &inside) {
            Ok(()) => {
                return Ok(Bubblewrap {
                    path,
                    version,
                    power,
                    inside,
                });
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(Finding::no(
        format!("{} does not work: {why}", path.display()),
        "allow user namespaces for bubblewrap; see the item `user namespaces`",
    ))
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The helper's binary, and what its loader would load for it.
fn inside() -> io::Result<Inside> {
    let binary = fs::canonicalize(helper::binary()?)?;
    let mut ask = ask_helper(trial::WORD)?;
    let list = ask.env("LD_TRACE_LOADED_OBJECTS", "1").output()?;
    Ok(Inside::parse(
        binary,
        &String::from_utf8_lossy(&list.stdout),
    ))
}

fn try_bubblewrap(path: &Path, power: Power, inside: &Inside) -> io::Result<()> {
    let line = bwrap::trial(path, power, inside, trial::WORD_INSIDE);
    let output = Command::new(path)
        .args(line.iter().skip(1))
        .env_clear()
        .envs(bwrap::ENVIRONMENT)
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    match (said.trim(), power) {
        ("ok", _) => Ok(()),
        ("", _) => {
            let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(io::Error::other(complaint))
        }
        // It ran without the capability, as requested.
        (_, Power::LandlockOnly) => Ok(()),
        (refusal, Power::Mounts) => Err(io::Error::other(refusal.to_owned())),
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
                trial::What::UserNamespace,
                trial::What::MountApi,
                trial::What::FreshProc,
                trial::What::NetworkNamespace,
            ] {
                let Finding::Missing { why, help } = refused(what, errno) else {
                    panic!("{what:?} is available");
                };
                assert!(!why.is_empty() && !help.is_empty());
            }
        }
    }
}
