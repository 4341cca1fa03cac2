//! A terminal for programs that need one. The runner holds the outer end.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use tokio::io::unix::AsyncFd;

/// The outer end of a pseudo-terminal.
pub struct PseudoTerminal {
    outer: AsyncFd<OwnedFd>,
}

impl PseudoTerminal {
    /// Opens a terminal: the outer end, and the inner end that becomes the child's streams.
    pub fn open(rows: u16, columns: u16) -> io::Result<(Self, OwnedFd)> {
        let (mut outer, mut inner) = (0, 0);
        let size = libc::winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: space for two descriptors, both new; no name, default settings.
        let (outer, inner) = unsafe {
            let done = libc::openpty(
                &mut outer,
                &mut inner,
                std::ptr::null_mut(),
                std::ptr::null(),
                &size,
            );
            if done < 0 {
                return Err(io::Error::last_os_error());
            }
            (OwnedFd::from_raw_fd(outer), OwnedFd::from_raw_fd(inner))
        };
        // SAFETY: plain numbers.
        unsafe {
            for fd in [&outer, &inner] {
                libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
            }
            let flags = libc::fcntl(outer.as_raw_fd(), libc::F_GETFL);
            libc::fcntl(outer.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
        let outer = super::watched(outer)?;
        Ok((Self { outer }, inner))
    }

    /// Sets the size of the terminal.
    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        let size = libc::winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: plain data for our own terminal.
        match unsafe { libc::ioctl(self.outer.as_raw_fd(), libc::TIOCSWINSZ, &size) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads the child's output. Returns 0 when the inner end is closed.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.outer.readable().await?;
            let done = ready.try_io(|fd| {
                // SAFETY: there is space for what is read.
                let read =
                    unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
                usize::try_from(read).map_err(|_| io::Error::last_os_error())
            });
            match done {
                // Linux reports EIO when the inner end is closed.
                Ok(Err(e)) if e.raw_os_error() == Some(libc::EIO) => return Ok(0),
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }

    /// Writes input to the terminal, as if it was typed.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.outer.writable().await?;
            let done = ready.try_io(|fd| {
                // SAFETY: the bytes outlive the call.
                let written =
                    unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
                usize::try_from(written).map_err(|_| io::Error::last_os_error())
            });
            match done {
                Ok(written) => bytes = bytes.get(written?..).unwrap_or_default(),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }
}
