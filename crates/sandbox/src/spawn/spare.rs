//! The runner's side of `helper::spare`: requests helpers from it, and works without it if it is
//! not available.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use parking_lot::Mutex;

use super::{control, launch};
use crate::helper::spare::{self, SpareRequest};

/// Number of spawns before a spare helper is started.
const SPAWNS_BEFORE_SPARE: u32 = 2;

enum State {
    /// Number of spawns without a spare helper.
    Without(u32),
    Waiting(OwnedFd, libc::pid_t),
}

static STATE: Mutex<State> = Mutex::new(State::Without(0));

/// Requests a helper with these descriptors. Returns `None` if the caller has to start one.
pub fn request_helper(what: SpareRequest, with: &[RawFd]) -> Option<libc::pid_t> {
    let mut state = STATE.lock();
    if let State::Waiting(requests, spare) = &*state {
        match request(requests, what, with) {
            Ok(pid) => return Some(pid),
            Err(_) => {
                end(*spare);
                *state = State::Without(0);
            }
        }
    }
    if let State::Without(count) = &mut *state {
        *count += 1;
        // It serves the next spawn; this one would have to wait for it.
        if *count >= SPAWNS_BEFORE_SPARE
            && let Ok((requests, spare)) = start()
        {
            *state = State::Waiting(requests, spare);
        }
    }
    None
}

fn request(requests: &OwnedFd, what: SpareRequest, with: &[RawFd]) -> io::Result<libc::pid_t> {
    control::send_with(requests.as_fd(), &what, with)?;
    // A signal is not a failure: the spare has the request, and a second helper must not be started
    // with the same descriptors.
    let reply = loop {
        match control::receive::<i64>(requests.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            reply => break reply?,
        }
    };
    match reply {
        Some((pid @ 1.., _)) => Ok(pid as libc::pid_t),
        Some((errno, _)) => Err(io::Error::from_raw_os_error(-errno as i32)),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Kills and reaps a spare helper that has died or does not respond.
fn end(spare: libc::pid_t) {
    // SAFETY: our own child, not waited for yet, so the pid is still valid.
    unsafe {
        libc::kill(spare, libc::SIGKILL);
        libc::waitpid(spare, std::ptr::null_mut(), 0);
    }
}

fn start() -> io::Result<(OwnedFd, libc::pid_t)> {
    let (ours, theirs) = control::pair()?;
    wait_at_most(&ours, 5)?;
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    let null = OwnedFd::from(null);
    let places = [
        (launch::high(&null)?, 0),
        (launch::high(&null)?, 1),
        (launch::high(&null)?, 2),
        (launch::high(&theirs)?, spare::REQUESTS_FD),
    ];
    let spare = launch::spawn(Some(spare::MODE), &places)?;
    Ok((ours, spare))
}

/// Sets a receive timeout, after which a helper that does not respond is given up.
fn wait_at_most(socket: &OwnedFd, seconds: libc::time_t) -> io::Result<()> {
    let time = libc::timeval {
        tv_sec: seconds,
        tv_usec: 0,
    };
    // SAFETY: plain data of the size given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const time).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    extern "C" fn ignore(_: libc::c_int) {}

    #[test]
    fn a_signal_does_not_end_a_request() {
        let (ours, theirs) = control::pair().expect("sockets");
        wait_at_most(&ours, 5).expect("a timeout");
        // SAFETY: the handler does nothing; no other test uses this signal.
        let thread = unsafe {
            libc::signal(libc::SIGUSR2, ignore as *const () as libc::sighandler_t);
            libc::pthread_self()
        };
        let spare = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            // SAFETY: the thread waits below until this one has ended.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
            std::thread::sleep(Duration::from_millis(100));
            control::send(theirs.as_fd(), &42_i64, None).expect("sent");
            theirs
        });
        let pid = request(&ours, SpareRequest::Helper, &[]);
        drop(spare.join().expect("the thread ended"));
        assert_eq!(pid.expect("a helper"), 42);
    }
}
