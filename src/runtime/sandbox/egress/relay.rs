//! Bytes both ways: through buffers while they are few, through a kernel pipe in bulk.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::session::Session;

/// A direction that has moved as much is worth a pipe.
const BULK: u64 = 256 * 1024;
const SMALL_BUFFER: usize = 16 * 1024;
const LARGE_BUFFER: usize = 256 * 1024;

/// How one direction came to its end.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The sender said so; passed on.
    Closed,
    /// The receiver takes no more. It may still be sending.
    Deaf,
}

/// Copies both ways until both have ended. An error means that a peer is gone; the other is
/// then told by a reset, since a clean end would make half an answer look whole.
pub async fn both(client: &TcpStream, upstream: &TcpStream, session: &Session) {
    let pipes = &session.shared().pipes;
    let up = pump(client, upstream, &session.up, pipes);
    let down = pump(upstream, client, &session.down, pipes);
    join(client, upstream, session, up, down).await;
}

/// Runs two directions to their end, as `both` does.
pub async fn join(
    client: &TcpStream,
    upstream: &TcpStream,
    session: &Session,
    up: impl Future<Output = io::Result<End>>,
    down: impl Future<Output = io::Result<End>>,
) {
    let patience = session.shared().limits.half_closed;
    tokio::pin!(up, down);
    let finished = tokio::select! {
        end = &mut up => match end {
            Ok(_) => while_moving(down, &session.down, patience).await,
            Err(error) => Err(error),
        },
        end = &mut down => match end {
            // Nobody reads the answer, or it is over: a client that still sends may finish.
            Ok(_) => while_moving(up, &session.up, patience).await,
            Err(error) => Err(error),
        },
    };
    if finished.is_err() {
        let _ = client.set_zero_linger();
        let _ = upstream.set_zero_linger();
    }
}

/// Waits for the direction that is left, as long as bytes move.
async fn while_moving(
    direction: impl Future<Output = io::Result<End>>,
    moved: &AtomicU64,
    patience: Duration,
) -> io::Result<End> {
    tokio::pin!(direction);
    loop {
        let before = moved.load(Relaxed);
        match tokio::time::timeout(patience, &mut direction).await {
            Ok(end) => return end,
            Err(_) if moved.load(Relaxed) == before => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(_) => {}
        }
    }
}

/// Copies one direction to its end and passes that end on.
pub async fn pump(
    from: &TcpStream,
    to: &TcpStream,
    moved: &AtomicU64,
    pipes: &Semaphore,
) -> io::Result<End> {
    let mut buffer = vec![0; SMALL_BUFFER];
    let mut seen = 0u64;
    loop {
        let count = read_some(from, &mut buffer).await?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Ok(finish(to));
        };
        if write_all(to, bytes, moved).await.is_err() {
            return Ok(End::Deaf);
        }
        seen += count as u64;
        if seen >= BULK && buffer.len() < LARGE_BUFFER {
            #[cfg(target_os = "linux")]
            if let Ok(_permit) = pipes.try_acquire()
                && let Ok(pipe) = splice::Pipe::new()
                && let Some(end) = splice::pump(from, to, moved, &pipe).await?
            {
                return Ok(end);
            }
            buffer = vec![0; LARGE_BUFFER];
        }
    }
}

/// Tells the receiver that no more comes.
pub fn finish(to: &TcpStream) -> End {
    let _ = shutdown_write(to);
    End::Closed
}

fn shutdown_write(stream: &TcpStream) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open as long as `stream` is borrowed.
    match unsafe { libc::shutdown(stream.as_raw_fd(), libc::SHUT_WR) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What is there, up to the buffer's length; 0 at the end.
pub async fn read_some(from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

/// Writes everything, counting what the receiver's side has taken.
pub async fn write_all(to: &TcpStream, mut bytes: &[u8], moved: &AtomicU64) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                moved.fetch_add(count as u64, Relaxed);
                bytes = bytes.get(count..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Pages move from socket to socket without being copied through this process.
#[cfg(target_os = "linux")]
mod splice {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use tokio::io::Interest;
    use tokio::net::TcpStream;

    use super::{End, finish};

    /// As large as an ordinary user may ask for.
    const PIPE_SIZE: i32 = 1024 * 1024;

    pub struct Pipe {
        read: OwnedFd,
        write: OwnedFd,
    }

    impl Pipe {
        pub fn new() -> io::Result<Self> {
            let mut fds = [0; 2];
            // SAFETY: `fds` has room for the two descriptors.
            if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
                return Err(io::Error::last_os_error());
            }
            let [read, write] = fds;
            // SAFETY: both were just opened and belong to nobody else.
            let pipe = unsafe {
                Self {
                    read: OwnedFd::from_raw_fd(read),
                    write: OwnedFd::from_raw_fd(write),
                }
            };
            // A smaller pipe works too.
            // SAFETY: the descriptor is open.
            unsafe { libc::fcntl(write, libc::F_SETPIPE_SZ, PIPE_SIZE) };
            Ok(pipe)
        }
    }

    fn splice(from: RawFd, to: RawFd, count: usize) -> io::Result<usize> {
        let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
        let none = std::ptr::null_mut();
        // SAFETY: both descriptors are open; no offsets are given.
        match unsafe { libc::splice(from, none, to, none, count, flags) } {
            moved if moved >= 0 => Ok(moved as usize),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Copies to the end; `None` if these sockets cannot be spliced and nothing was taken.
    pub async fn pump(
        from: &TcpStream,
        to: &TcpStream,
        moved: &AtomicU64,
        pipe: &Pipe,
    ) -> io::Result<Option<End>> {
        loop {
            // The pipe is empty here, so that "would block" speaks of the socket alone.
            let take = || splice(from.as_raw_fd(), pipe.write.as_raw_fd(), PIPE_SIZE as usize);
            let mut held = match from.async_io(Interest::READABLE, take).await {
                Ok(0) => return Ok(Some(finish(to))),
                Ok(count) => count,
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(None),
                Err(error) => return Err(error),
            };
            while held > 0 {
                let give = || splice(pipe.read.as_raw_fd(), to.as_raw_fd(), held);
                match to.async_io(Interest::WRITABLE, give).await {
                    Ok(0) | Err(_) => return Ok(Some(End::Deaf)),
                    Ok(count) => {
                        moved.fetch_add(count as u64, Relaxed);
                        held = held.saturating_sub(count);
                    }
                }
            }
        }
    }
}
