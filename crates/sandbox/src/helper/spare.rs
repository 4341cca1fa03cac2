//! A helper that waits for requests. Loading the binary is half the cost of a spawn. A runner that
//! spawns often keeps one loaded copy, which forks itself for each helper. The forks are children
//! of the runner, as if it had started them.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::{native, sys};
use crate::plan::PLAN_FD;
use crate::spawn::control;

/// Second argument that starts this mode.
pub const MODE: &str = "spare";
/// Descriptor of the request socket.
pub const REQUESTS_FD: i32 = 3;

/// Number of descriptors of every helper: the target's streams, the control socket and the plan.
pub const DESCRIPTORS: usize = PLAN_FD as usize + 1;
/// Descriptor on which the runner accepts a fork, after it has received its pid.
const ACCEPTED_FD: i32 = PLAN_FD + 1;

/// What the fork should become.
#[derive(Clone, Copy, serde::Deserialize, serde::Serialize)]
pub enum SpareRequest {
    /// An ordinary helper.
    Helper,
    /// Process 1 of a sandbox directly, if nothing on the host has to be cleaned up after it.
    FirstProcess,
}

/// Serves until the runner is gone. A request comes with the descriptors of a helper and a pipe. The
/// reply is the pid of a fork, which waits until the runner accepts it.
pub fn run() {
    // SAFETY: the runner put it there for us; nothing else owns it.
    let requests = unsafe { OwnedFd::from_raw_fd(REQUESTS_FD) };
    // A target without a sandbox can stop this process, which must still end with the runner.
    let _ = sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGCONT as _, 0);
    let identity = native::Identity::current();
    super::filter::prepare();
    while let Ok(Some((request, with))) = control::receive_with::<SpareRequest>(requests.as_fd()) {
        let (namespaces, identity) = match request {
            SpareRequest::Helper => (0, None),
            SpareRequest::FirstProcess => (native::NAMESPACES, Some(identity)),
        };
        // SAFETY: one thread; the fork continues like this process. Its parent is our parent.
        let pid = unsafe {
            let flags = libc::CLONE_PARENT | libc::SIGCHLD | namespaces;
            libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0)
        };
        if pid == 0 {
            drop(requests);
            let moved = move_descriptors(&with);
            // Their numbers may now belong to others. The rest is closed later.
            std::mem::forget(with);
            if moved.is_ok() && is_accepted() {
                super::run(identity);
            }
            return;
        }
        let reply = match pid {
            ..0 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(1)),
            pid => pid,
        };
        if control::send(requests.as_fd(), &reply, None).is_err() {
            return;
        }
    }
}

/// Moves the descriptors to where every helper expects them.
fn move_descriptors(with: &[OwnedFd]) -> std::io::Result<()> {
    // SAFETY: no arguments. A fork of this process is not a group leader.
    unsafe { libc::setsid() };
    let high = with
        .iter()
        .map(|fd| sys::duplicate_from(fd.as_raw_fd(), 16));
    let high = high.collect::<std::io::Result<Vec<_>>>()?;
    for (to, from) in (0..=ACCEPTED_FD).zip(&high) {
        sys::dup2(from.as_raw_fd(), to)?;
    }
    Ok(())
}

/// Whether the runner accepts this fork. A runner that did not receive its pid in time starts
/// another helper with the same descriptors.
fn is_accepted() -> bool {
    // SAFETY: `move_descriptors` put it there; nothing else owns it.
    let accepted = unsafe { OwnedFd::from_raw_fd(ACCEPTED_FD) };
    File::from(accepted)
        .read(&mut [0])
        .is_ok_and(|read| read == 1)
}
