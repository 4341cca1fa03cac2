//! The words between the runner and its helper, over one socket that keeps message bounds.
//! The socket is also the lifeline: when either end is gone, the other gives up.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use serde::{Deserialize, Serialize};

/// Longest message; ours are far shorter.
const LONGEST: usize = 16 * 1024;

/// From the helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Report {
    /// With a listening socket of the sandbox's own network.
    Listener,
    /// With an unconnected socket of the sandbox's own network.
    Socket,
    /// The target was executed.
    Started,
    /// Nothing was executed.
    Failed { step: String, errno: i32 },
    /// The target is gone, and so is all that it started.
    Ended(Ended),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// As `wait` tells it.
    pub status: i32,
    /// Processes that were still there when the target ended, and were killed.
    pub survivors: u32,
    /// One of them held the target's output open for as long as the plan lets them.
    #[serde(default)]
    pub held: bool,
    /// Of the target and everything that it started.
    pub user_us: u64,
    pub system_us: u64,
    pub peak_kb: u64,
}

/// To the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Order {
    /// To the target's process group, or to everything.
    Signal { number: i32, all: bool },
    /// To the target alone, as `kill PID` sends it.
    SignalTarget { number: i32 },
    /// Asks for a `Socket`.
    Socket,
    /// Kills everything now.
    Kill,
}

/// A connected pair, closed on exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors.
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

/// A message with some descriptors.
pub fn send_with<T: Serialize>(socket: BorrowedFd, message: &T, with: &[RawFd]) -> io::Result<()> {
    if with.len() > MOST_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut space = Ancillary::default();
    let size = size_of_val(with) as u32;
    // SAFETY: a zeroed header is valid; its pointers outlive the call, and there is room
    // for as many descriptors as were counted above.
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

/// The next message; `None` when the other end is gone.
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
    let mut bytes = [0_u8; LONGEST];
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
            // The other end has gone without reading what it was sent. What it said before is
            // still there, behind this error, which is told once.
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

const MOST_DESCRIPTORS: usize = 8;

/// Room for the descriptors, aligned as the kernel wants it.
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
        send(a.as_fd(), &Report::Listener, Some(extra.as_fd())).expect("sent");
        let failed = Report::Failed {
            step: "mount".into(),
            errno: 1,
        };
        send(a.as_fd(), &failed, None).expect("sent");
        drop(a);
        let (first, fd) = receive::<Report>(b.as_fd()).expect("ok").expect("one");
        assert_eq!((first, fd.is_some()), (Report::Listener, true));
        let (second, fd) = receive::<Report>(b.as_fd()).expect("ok").expect("two");
        assert_eq!((second, fd.is_some()), (failed, false));
        assert!(receive::<Report>(b.as_fd()).expect("ok").is_none());
    }

    /// A signal that is sent to a target in the moment of its end does not cost its exit code.
    #[test]
    fn the_last_words_of_an_end_that_did_not_listen_are_heard() {
        let (runner, helper) = pair().expect("pair");
        send(runner.as_fd(), &Order::Kill, None).expect("sent");
        send(helper.as_fd(), &Report::Started, None).expect("sent");
        drop(helper);
        let (last, _) = receive::<Report>(runner.as_fd()).expect("ok").expect("one");
        assert_eq!(last, Report::Started);
        assert!(receive::<Report>(runner.as_fd()).expect("ok").is_none());
    }
}
