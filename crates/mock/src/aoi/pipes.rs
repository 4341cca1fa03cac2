//! Writes stdout and reads stdin in small pieces, so that the process never blocks while a signal
//! arrives.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use super::signals;

/// Number of bytes that a writable pipe accepts without blocking.
const PIECE: usize = 4096;
/// Maximum time until a signal is noticed.
const SLICE: Duration = Duration::from_millis(50);
/// How long to finish a line for a reader that does not read, after a signal.
const GRACE: Duration = Duration::from_millis(1500);

pub struct StdoutPipe(File);

impl StdoutPipe {
    pub fn stdout() -> io::Result<StdoutPipe> {
        Ok(StdoutPipe(File::from(
            io::stdout().as_fd().try_clone_to_owned()?,
        )))
    }

    /// Writes everything. Returns `false` if the reader is slow for longer than `timeout`, and
    /// writes nothing more then.
    pub fn write(&mut self, bytes: &[u8], timeout: Option<Duration>) -> io::Result<bool> {
        let mut rest = bytes;
        let start = Instant::now();
        let mut stopped = None;
        while !rest.is_empty() {
            if !is_ready(&self.0, libc::POLLOUT)? {
                if timeout.is_some_and(|max| start.elapsed() > max) {
                    return Ok(false);
                }
                if signals::received().is_some() {
                    let since = stopped.get_or_insert_with(Instant::now);
                    if since.elapsed() > GRACE {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                continue;
            }
            let piece = rest.get(..PIECE).unwrap_or(rest);
            match self.0.write(piece) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Reads all of stdin. Returns `None` if a signal arrives first.
pub fn read_stdin(max: usize) -> io::Result<Option<Vec<u8>>> {
    let mut stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        if signals::received().is_some() {
            return Ok(None);
        }
        if !is_ready(&stdin, libc::POLLIN)? {
            continue;
        }
        match stdin.read(&mut piece) {
            Ok(0) => return Ok(Some(bytes)),
            Ok(read) => bytes.extend_from_slice(piece.get(..read).unwrap_or_default()),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        if bytes.len() > max {
            return Err(ErrorKind::FileTooLarge.into());
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}

/// Waits briefly until the file can be read or written. Returns whether it can.
fn is_ready(file: &File, events: i16) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events,
        revents: 0,
    };
    let slice = i32::try_from(SLICE.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `poll` is one valid structure during the call.
    match unsafe { libc::poll(&mut poll, 1, slice) } {
        0 => Ok(false),
        ready if ready > 0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if is_passing(&error) => Ok(false),
            error => Err(error),
        },
    }
}
