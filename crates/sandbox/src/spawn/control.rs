//! Messages between the runner and its helper, over one socket that keeps message boundaries. When
//! either end is closed, the other one stops.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use serde::{Deserialize, Serialize};

/// Maximum length of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// Messages from the helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum HelperReport {
    /// Carries a listening socket of the sandbox's own network.
    Listener,
    /// Carries an unconnected socket of the sandbox's own network.
    Socket,
    /// The target was executed.
    Started,
    /// A step failed, and nothing was executed.
    Failed { step: String, errno: i32 },
    /// The target and all its descendants are gone.
    Ended(TargetExit),
}

/// How a target ended, and the resources that it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetExit {
    /// Status as `wait` returns it.
    pub status: i32,
    /// Number of processes that were still running when the target ended, and were killed.
    pub survivors: u32,
    /// Whether one of them held the target's output open for as long as the plan allows.
    #[serde(default)]
    pub held: bool,
    /// User time of the target and all its descendants, in microseconds.
    pub user_us: u64,
    /// System time of the target and all its descendants, in microseconds.
    pub system_us: u64,
    /// Largest resident memory of one of these processes, in KiB.
    pub peak_kb: u64,
    /// Packets and connections that the processes tried to send to a network. Always 0 without a
    /// network namespace of their own.
    #[serde(default)]
    pub network_attempts: u64,
}

/// Messages to the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum HelperCommand {
    /// Signals the target's process group, or everything.
    Signal { number: i32, all: bool },
    /// Signals the target only, like `kill PID`.
    SignalTarget { number: i32 },
    /// Requests a `Socket`.
    Socket,
    /// Kills everything now.
    Kill,
}

/// A connected pair of sockets, closed on exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: space for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both are new and ours.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

pub fn send<T: Serialize>(
    socket: BorrowedFd,
    message: &T,
    with: Option<BorrowedFd>,
) -> io::Result<()> {
    let with: Vec<RawFd> = with.iter().map(AsRawFd::as_raw_fd).collect();
    send_with(socket, message, &with)
}

/// Sends a message with descriptors.
pub fn send_with<T: Serialize>(socket: BorrowedFd, message: &T, with: &[RawFd]) -> io::Result<()> {
    if with.len() > MAX_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut space = Ancillary::default();
    let size = size_of_val(with) as u32;
    // SAFETY: a zeroed header is valid. Its pointers outlive the call, and there is space for the
    // number of descriptors that was checked above.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !with.is_empty() {
            header.msg_control = space.0.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(size) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(size) as _;
            let data = libc::CMSG_DATA(first).cast::<RawFd>();
            for (i, fd) in with.iter().enumerate() {
                data.add(i).write_unaligned(*fd);
            }
        }
        loop {
            if libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

/// The next message, or `None` if the other end is closed.
pub fn receive<T: for<'de> Deserialize<'de>>(
    socket: BorrowedFd,
) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let received = receive_with(socket)?;
    Ok(received.map(|(message, with)| (message, with.into_iter().next())))
}

/// The next message with its descriptors, which are closed on exec.
pub fn receive_with<T: for<'de> Deserialize<'de>>(
    socket: BorrowedFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = [0_u8; MAX_MESSAGE_BYTES];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut space = Ancillary::default();
    let mut with = Vec::new();
    // SAFETY: as in `send_with`; the kernel writes no more than the lengths given.
    let length = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = space.0.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Ancillary>() as _;
        let length = loop {
            let length = libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
            if length >= 0 {
                break length;
            }
            let error = io::Error::last_os_error();
            // The other end was closed without reading what was sent to it. Its earlier messages
            // are still available after this error, which occurs once.
            if error.kind() != io::ErrorKind::ConnectionReset {
                return Err(error);
            }
        };
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        if !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
        {
            let size = (*first).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(first).cast::<RawFd>();
            for i in 0..size / size_of::<RawFd>() {
                with.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
            }
        }
        length as usize
    };
    if length == 0 {
        return Ok(None);
    }
    let message = serde_json::from_slice(bytes.get(..length).unwrap_or_default())
        .map_err(io::Error::other)?;
    Ok(Some((message, with)))
}

const MAX_DESCRIPTORS: usize = 8;

/// Space for the descriptors, aligned as the kernel requires.
#[derive(Default)]
#[repr(C, align(8))]
struct Ancillary([u64; 8]);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn messages_and_descriptors_arrive() {
        let (a, b) = pair().expect("pair");
        let (extra, _other) = pair().expect("pair");
        send(a.as_fd(), &HelperReport::Listener, Some(extra.as_fd())).expect("sent");
        let failed = HelperReport::Failed {
            step: "mount".into(),
            errno: 1,
        };
        send(a.as_fd(), &failed, None).expect("sent");
        drop(a);
        let (first, fd) = receive::<HelperReport>(b.as_fd())
            .expect("ok")
            .expect("one");
        assert_eq!((first, fd.is_some()), (HelperReport::Listener, true));
        let (second, fd) = receive::<HelperReport>(b.as_fd())
            .expect("ok")
            .expect("two");
        assert_eq!((second, fd.is_some()), (failed, false));
        assert!(receive::<HelperReport>(b.as_fd()).expect("ok").is_none());
    }

    /// A signal that is sent to a target at the moment of its end does not lose its exit code.
    #[test]
    fn messages_before_a_reset_are_received() {
        let (runner, helper) = pair().expect("pair");
        send(runner.as_fd(), &HelperCommand::Kill, None).expect("sent");
        send(helper.as_fd(), &HelperReport::Started, None).expect("sent");
        drop(helper);
        let (last, _) = receive::<HelperReport>(runner.as_fd())
            .expect("ok")
            .expect("one");
        assert_eq!(last, HelperReport::Started);
        assert!(
            receive::<HelperReport>(runner.as_fd())
                .expect("ok")
                .is_none()
        );
    }
}
