//! Tests what the kernel allows, by doing it in a process that ends right after. Reading the
//! settings is not enough, because security modules refuse what the settings allow.

use std::ffi::CStr;
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::sys::{self, Fork};

/// Second argument that starts the trials.
pub const MODE: &str = "try";
/// Second argument that tests inside bubblewrap whether mounts can be made.
pub const MODE_INSIDE: &str = "try-inside";

/// The result of one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureTrial {
    pub what: KernelFeature,
    /// Error number, or 0 if it worked.
    pub errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelFeature {
    UserNamespace,
    MountNamespace,
    NetworkNamespace,
    IpcNamespace,
    ProcessNamespace,
    FreshProc,
    MountApi,
}

/// Runs all trials, and prints the results to stdout.
pub fn run() {
    let mut trials = Vec::new();
    let usable = record(&mut trials, KernelFeature::UserNamespace, user_namespace());
    if usable {
        let unshare = sys::unshare(libc::CLONE_NEWNS).and_then(|()| sys::private_mounts());
        let mounts = record(&mut trials, KernelFeature::MountNamespace, unshare);
        let network = sys::unshare(libc::CLONE_NEWNET).and_then(|()| sys::loopback_up());
        record(&mut trials, KernelFeature::NetworkNamespace, network);
        record(
            &mut trials,
            KernelFeature::IpcNamespace,
            sys::unshare(libc::CLONE_NEWIPC),
        );
        if mounts {
            record(&mut trials, KernelFeature::MountApi, mount_api());
        }
        if record(
            &mut trials,
            KernelFeature::ProcessNamespace,
            sys::unshare(libc::CLONE_NEWPID),
        ) {
            match sys::fork() {
                Ok(Fork::Child) => {
                    if mounts {
                        record(&mut trials, KernelFeature::FreshProc, fresh_proc());
                    }
                    return print(&trials);
                }
                Ok(Fork::Parent(pid)) => {
                    // SAFETY: our own child; the status is not needed.
                    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
                    return;
                }
                Err(error) => {
                    trials.pop();
                    record(&mut trials, KernelFeature::ProcessNamespace, Err(error));
                }
            }
        }
    }
    print(&trials);
}

/// Prints `ok` if mounts can be made from inside bubblewrap.
pub fn run_inside() {
    let result = match mount_api() {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.to_string(),
    };
    let _ = writeln!(io::stdout(), "{result}");
}

fn record(trials: &mut Vec<FeatureTrial>, what: KernelFeature, result: io::Result<()>) -> bool {
    let errno = match result {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
    };
    trials.push(FeatureTrial { what, errno });
    errno == 0
}

fn print(trials: &[FeatureTrial]) {
    if let Ok(text) = serde_json::to_string(trials) {
        let _ = writeln!(io::stdout(), "{text}");
    }
}

fn user_namespace() -> io::Result<()> {
    // SAFETY: no arguments, cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    sys::unshare(libc::CLONE_NEWUSER)?;
    // A restricted namespace can be created, but every use of it is refused.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn mount_api() -> io::Result<()> {
    let tree = sys::clone_tree(Path::new("/"))?;
    sys::restrict_mount(tree.as_fd(), sys::ATTR_RDONLY | sys::ATTR_NOEXEC, true)?;
    attach_somewhere(c"tmpfs")
}

fn fresh_proc() -> io::Result<()> {
    attach_somewhere(c"proc")
}

/// Attaches a mount over a directory that certainly exists, in this process's own mount namespace.
fn attach_somewhere(kind: &CStr) -> io::Result<()> {
    let mount = sys::new_mount(kind, &[], sys::ATTR_NOSUID | sys::ATTR_NODEV)?;
    sys::attach(mount.as_fd(), libc::AT_FDCWD, c"/proc")
}
