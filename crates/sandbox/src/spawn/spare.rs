//! The runner's side of `helper::spare`: requests helpers from it, and works without it if it is
//! not available.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use parking_lot::Mutex;

use super::{control, launch};
use crate::helper::spare::{self, SpareRequest};
use crate::helper::sys;

/// Number of spawns before a spare helper is started.
const SPAWNS_BEFORE_SPARE: u32 = 2;

enum State {
    /// Number of spawns without a spare helper.
    Without(u32),
    Waiting(OwnedFd, libc::pid_t),
}

static STATE: Mutex<State> = Mutex::new(State::Without(0));

/// Requests a helper with these descriptors. Returns `None` if the caller has to start one.
pub fn request_helper(
    what: SpareRequest,
    with: [&OwnedFd; spare::DESCRIPTORS],
) -> io::Result<Option<libc::pid_t>> {
    let mut state = STATE.lock();
    if let State::Waiting(requests, spare) = &*state {
        let (reply, is_lost) = request_or_end(requests, *spare, what, with)?;
        if is_lost {
            *state = State::Without(0);
        }
        if reply.is_some() {
            return Ok(reply);
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
    Ok(None)
}

/// Requests a helper, and ends the spare if that fails. Returns whether the spare was ended. If no
/// helper is returned, none uses the descriptors.
fn request_or_end(
    requests: &OwnedFd,
    spare: libc::pid_t,
    what: SpareRequest,
    with: [&OwnedFd; spare::DESCRIPTORS],
) -> io::Result<(Option<libc::pid_t>, bool)> {
    // A helper does nothing before it is accepted. If it is not, it ends when `accept` is closed.
    let (is_accepted, accept) = sys::pipe()?;
    let with = with.into_iter().chain([&is_accepted]);
    let with: Vec<RawFd> = with.map(AsRawFd::as_raw_fd).collect();
    let mut reply = request(requests, what, &with);
    let is_lost = reply.is_err();
    if is_lost {
        end(spare);
        // The spare may have replied before it was killed.
        reply = receive_reply(requests);
    }
    if reply.is_ok() {
        File::from(accept).write_all(&[1])?;
    }
    Ok((reply.ok(), is_lost))
}

fn request(requests: &OwnedFd, what: SpareRequest, with: &[RawFd]) -> io::Result<libc::pid_t> {
    control::send_with(requests.as_fd(), &what, with)?;
    receive_reply(requests)
}

fn receive_reply(requests: &OwnedFd) -> io::Result<libc::pid_t> {
    // A signal is not a failure: the spare has the request.
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

    /// Requests a helper from a spare that does not reply in time. Returns the reply, and what a
    /// helper that it forked reads from the pipe on which it waits.
    fn request_from_slow_spare(
        reply: impl FnOnce(&OwnedFd) + Send + 'static,
    ) -> (Option<libc::pid_t>, Vec<u8>) {
        let (ours, theirs) = control::pair().expect("sockets");
        wait_at_most(&ours, 1).expect("a timeout");
        let process = std::process::Command::new("sleep").arg("600").spawn();
        let mut process = process.expect("started");
        let process_id = process.id();
        let spare = std::thread::spawn(move || {
            let request = control::receive_with::<SpareRequest>(theirs.as_fd());
            let (_, mut with) = request.expect("received").expect("a request");
            // Wait until the runner has given up and killed the process.
            while std::path::Path::new(&format!("/proc/{process_id}")).exists() {
                std::thread::sleep(Duration::from_millis(10));
            }
            reply(&theirs);
            drop(theirs);
            let mut read = Vec::new();
            let accepted = File::from(with.pop().expect("a pipe"));
            std::io::Read::read_to_end(&mut { accepted }, &mut read).expect("read");
            assert_eq!(with.len(), spare::DESCRIPTORS);
            read
        });
        let null = OwnedFd::from(File::open("/dev/null").expect("opened"));
        let ends = [&null; spare::DESCRIPTORS];
        let spare_id = process.id() as libc::pid_t;
        let found = request_or_end(&ours, spare_id, SpareRequest::Helper, ends);
        let (pid, is_lost) = found.expect("no error");
        assert!(is_lost);
        // SAFETY: signal 0 only checks whether the process is there.
        assert_eq!(unsafe { libc::kill(spare_id, 0) }, -1, "the spare is alive");
        assert!(process.wait().is_err(), "the spare was not waited for");
        (pid, spare.join().expect("the thread ended"))
    }

    #[test]
    fn a_helper_of_a_slow_spare_is_not_used_twice() {
        let (pid, read) = request_from_slow_spare(|_| {});
        assert_eq!((pid, read), (None, vec![]), "the helper must not start");
        // The reply arrived after the time limit, but before the spare was gone.
        let (pid, read) = request_from_slow_spare(|spare| {
            control::send(spare.as_fd(), &42_i64, None).expect("sent");
        });
        assert_eq!((pid, read), (Some(42), vec![1]), "the helper must start");
    }
}
