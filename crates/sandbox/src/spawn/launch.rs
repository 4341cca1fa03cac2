//! Starts the helper with `posix_spawn` instead of `fork`. A daemon with a large heap then pays
//! nothing for its size, and none of our code runs in between.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use super::spare;
use crate::helper;
use crate::helper::spare::SpareRequest;
use crate::plan::{PLAN_FD, PlanKind, SpawnPlan};

/// A child process with an unambiguous identity. Its pid is not reused before we have waited for
/// it, and its descriptor stays valid after that.
pub struct Helper {
    pub pid: libc::pid_t,
    pub pidfd: OwnedFd,
}

/// Descriptors that become 0, 1 and 2 of the target.
pub struct Streams {
    /// Descriptor 0.
    pub stdin: OwnedFd,
    /// Descriptor 1.
    pub stdout: OwnedFd,
    /// Descriptor 2.
    pub stderr: OwnedFd,
}

pub fn start(plan: &SpawnPlan, streams: &Streams, control: OwnedFd) -> io::Result<Helper> {
    let is_self_contained = plan.confinement.is_some() && plan.leftovers.is_empty();
    let request = match plan.kind {
        PlanKind::Native if is_self_contained => SpareRequest::FirstProcess,
        _ => SpareRequest::Helper,
    };
    let plan = helper::sys::memory_file(&serde_json::to_vec(plan).map_err(io::Error::other)?)?;
    let ends = [
        &streams.stdin,
        &streams.stdout,
        &streams.stderr,
        &control,
        &plan,
    ];
    if let Some(pid) = spare::request_helper(request, ends)? {
        return helper(pid);
    }
    let mut places = Vec::new();
    for (end, to) in ends.into_iter().zip(0..=PLAN_FD) {
        places.push((high(end)?, to));
    }
    helper(spawn(None, &places)?)
}

fn helper(pid: libc::pid_t) -> io::Result<Helper> {
    // SAFETY: our own child, not waited for yet, so the pid is still valid.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, libc::PIDFD_NONBLOCK) };
    if pidfd < 0 {
        let error = io::Error::last_os_error();
        // SAFETY: as above.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
        return Err(error);
    }
    // SAFETY: a new descriptor.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd as RawFd) };
    Ok(Helper { pid, pidfd })
}

/// Sends a signal to a helper, which may have ended.
pub fn signal(pidfd: &OwnedFd, number: i32) {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: plain numbers, and no additional information.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            number,
            none,
            0,
        )
    };
}

/// Reaps the helper, once its descriptor reports that it has ended.
pub fn wait(helper: &Helper) {
    // SAFETY: the kernel fills `info` in; the process is our child or already reaped.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let id = helper.pidfd.as_raw_fd() as libc::id_t;
        libc::waitid(libc::P_PIDFD, id, &mut info, libc::WEXITED | libc::WNOHANG);
    }
}

/// A copy with a number above those that the helper expects, closed on exec.
pub(super) fn high(fd: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the result is new.
    unsafe {
        let copy = libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 16);
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

pub(super) fn spawn(mode: Option<&str>, places: &[(OwnedFd, RawFd)]) -> io::Result<libc::pid_t> {
    let binary = CString::new(helper::binary()?.as_os_str().as_bytes())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let name = CString::new(helper::NAME).map_err(io::Error::other)?;
    let mode = mode
        .map(CString::new)
        .transpose()
        .map_err(io::Error::other)?;
    let argv = [
        name.as_ptr().cast_mut(),
        mode.as_ref()
            .map_or(std::ptr::null_mut(), |mode| mode.as_ptr().cast_mut()),
        std::ptr::null_mut(),
    ];
    // The plan has the target's environment. The helper itself needs little memory and no huge
    // pages, because it runs for milliseconds.
    let env = [
        c"MIMALLOC_ALLOW_THP=0".as_ptr().cast_mut(),
        c"MIMALLOC_ARENA_EAGER_COMMIT=0".as_ptr().cast_mut(),
        std::ptr::null_mut(),
    ];
    let flags = libc::POSIX_SPAWN_SETSID | libc::POSIX_SPAWN_SETSIGMASK as libc::c_short;
    let mut pid = 0;
    // SAFETY: initialized before use, destroyed after; the strings outlive the calls.
    let code = unsafe {
        let mut actions: libc::posix_spawn_file_actions_t = std::mem::zeroed();
        let mut attributes: libc::posix_spawnattr_t = std::mem::zeroed();
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::posix_spawn_file_actions_init(&mut actions);
        libc::posix_spawnattr_init(&mut attributes);
        for (from, to) in places {
            libc::posix_spawn_file_actions_adddup2(&mut actions, from.as_raw_fd(), *to);
        }
        libc::posix_spawnattr_setsigmask(&mut attributes, &none);
        libc::posix_spawnattr_setflags(&mut attributes, flags);
        let code = libc::posix_spawn(
            &mut pid,
            binary.as_ptr(),
            &actions,
            &attributes,
            argv.as_ptr(),
            env.as_ptr(),
        );
        libc::posix_spawnattr_destroy(&mut attributes);
        libc::posix_spawn_file_actions_destroy(&mut actions);
        code
    };
    match code {
        0 => Ok(pid),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
