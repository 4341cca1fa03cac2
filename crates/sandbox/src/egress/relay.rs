//! Copies bytes in both directions, through a small buffer at first and a large one in bulk. Large
//! reads are faster than `splice` here: fewer wake-ups save more than a copy that stays in the
//! cache costs.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::connection::AllowedConnection;

/// Number of bytes after which a direction gets a larger buffer.
const BULK_BYTES: u64 = 256 * 1024;
const SMALL_BUFFER: usize = 16 * 1024;
/// Size of the buffer if all large ones are in use.
const MIDDLE_BUFFER: usize = 128 * 1024;
const LARGE_BUFFER: usize = 2 * 1024 * 1024;

/// How one direction ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The sender closed it, and this was passed on.
    Closed,
    /// The receiver accepts no more data. It may still send.
    ReceiverClosed,
}

/// Copies in both directions until both have ended. An error means that a peer is gone. The other
/// peer then gets a reset, because a clean end would make an incomplete response look complete.
pub async fn both(client: &TcpStream, upstream: &TcpStream, connection: &AllowedConnection) {
    let pipes = &connection.shared().large;
    let up = pump(client, upstream, &connection.up, pipes);
    let down = pump(upstream, client, &connection.down, pipes);
    join(client, upstream, connection, up, down).await;
}

/// Runs two directions to their end, as `both` does.
pub async fn join(
    client: &TcpStream,
    upstream: &TcpStream,
    connection: &AllowedConnection,
    up: impl Future<Output = io::Result<End>>,
    down: impl Future<Output = io::Result<End>>,
) {
    let time_limit = connection.shared().limits.half_closed;
    tokio::pin!(up, down);
    let finished = tokio::select! {
        end = &mut up => match end {
            Ok(_) => while_moving(down, &connection.down, time_limit).await,
            Err(error) => Err(error),
        },
        end = &mut down => match end {
            // The response is over, or the client does not read it. A client that still sends may
            // finish.
            Ok(_) => while_moving(up, &connection.up, time_limit).await,
            Err(error) => Err(error),
        },
    };
    if finished.is_err() {
        let _ = client.set_zero_linger();
        let _ = upstream.set_zero_linger();
    }
}

/// Waits for the remaining direction as long as bytes are moving.
async fn while_moving(
    direction: impl Future<Output = io::Result<End>>,
    moved: &AtomicU64,
    time_limit: Duration,
) -> io::Result<End> {
    tokio::pin!(direction);
    loop {
        let before = moved.load(Relaxed);
        match tokio::time::timeout(time_limit, &mut direction).await {
            Ok(end) => return end,
            Err(_) if moved.load(Relaxed) == before => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(_) => {}
        }
    }
}

/// Copies one direction to its end, and passes the end on.
pub async fn pump(
    from: &TcpStream,
    to: &TcpStream,
    moved: &AtomicU64,
    large: &Semaphore,
) -> io::Result<End> {
    let mut buffer = vec![0; SMALL_BUFFER];
    let mut permit = None;
    let mut seen = 0u64;
    loop {
        let count = read_some(from, &mut buffer).await?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Ok(finish(to));
        };
        if write_all(to, bytes, moved).await.is_err() {
            return Ok(End::ReceiverClosed);
        }
        seen += count as u64;
        if seen >= BULK_BYTES && permit.is_none() && buffer.len() < MIDDLE_BUFFER {
            permit = large.try_acquire().ok();
            buffer = match permit {
                Some(_) => vec![0; LARGE_BUFFER],
                None => vec![0; MIDDLE_BUFFER],
            };
        }
    }
}

/// Closes the receiver's side for writing.
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

/// Reads what is available, up to the buffer's length. Returns 0 at the end.
pub async fn read_some(from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

/// Writes everything, and counts the bytes that the receiver has accepted.
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
