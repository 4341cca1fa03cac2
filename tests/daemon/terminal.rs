//! A program at a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::ptr::{null, null_mut};

use super::served::command;

/// A child process on its own pseudo-terminal.
pub struct Terminal {
    pub child: Child,
    screen: File,
    seen: String,
}

impl Terminal {
    pub fn new(dir: &Path, args: &[&str]) -> Terminal {
        Terminal::sized(dir, args, 120)
    }

    /// A terminal with this many columns.
    pub fn sized(dir: &Path, args: &[&str], columns: u16) -> Terminal {
        let (mut master, mut slave) = (-1, -1);
        let size = libc::winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: all pointers are valid, and the others may be null.
        let made =
            unsafe { libc::openpty(&mut master, &mut slave, null_mut(), null(), &raw const size) };
        assert_eq!(made, 0, "a terminal");
        // SAFETY: the descriptors are open, and nothing else owns them.
        let (master, slave) =
            unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let mut command = command(dir);
        command.args(args).env("TERM", "xterm");
        command.stdin(slave.try_clone().expect("a copy"));
        command
            .stdout(slave.try_clone().expect("a copy"))
            .stderr(slave);
        // SAFETY: only async-signal-safe system calls between fork and exec.
        unsafe {
            libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY as _, 0);
                Ok(())
            });
        }
        Terminal {
            child: command.spawn().expect("started"),
            screen: File::from(master),
            seen: String::new(),
        }
    }

    pub fn types(&mut self, text: &str) {
        self.screen.write_all(text.as_bytes()).expect("typed");
    }

    /// Reads until `wanted` appears. Returns the text up to it.
    #[track_caller]
    pub fn until(&mut self, wanted: &str) -> String {
        let mut bytes = [0; 1024];
        while !self.seen.contains(wanted) {
            let read = self.screen.read(&mut bytes).unwrap_or(0);
            assert!(
                read > 0,
                "the program ended before printing {wanted:?}: {}",
                self.seen
            );
            self.seen += &String::from_utf8_lossy(&bytes[..read]);
        }
        let at = self.seen.find(wanted).expect("there") + wanted.len();
        let rest = self.seen.split_off(at);
        std::mem::replace(&mut self.seen, rest)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
