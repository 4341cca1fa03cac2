//! The binary on a pseudo-terminal, with scripted input.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::Bench;

pub struct Pty {
    master: File,
    child: Child,
    pub seen: String,
}

impl Pty {
    pub fn start(bench: &Bench, args: &[&str]) -> Pty {
        let (mut master, mut slave) = (0, 0);
        // SAFETY: both pointers are valid for writes, and the other arguments may be null.
        let made = unsafe {
            libc::openpty(
                &mut master,
                &mut slave,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        assert_eq!(made, 0, "a terminal");
        // SAFETY: the descriptors are open, and nothing else owns them.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let side = || slave.try_clone().expect("a copy");
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
        command
            .args(args)
            .current_dir(bench.at("work"))
            .env_clear()
            .envs(bench.env.iter().cloned())
            .env("AGENTPROTO_HOME", bench.at("home"))
            .stdin(side())
            .stdout(side())
            .stderr(side());
        // SAFETY: only two async-signal-safe system calls, for a new session with this terminal.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            })
        };
        let child = command.spawn().expect("started");
        Pty {
            master,
            child,
            seen: String::new(),
        }
    }

    /// Waits until a text has been printed.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.more(), "`{text}` was not shown: {}", self.seen);
        }
    }

    /// Reads more output. Returns false at the end.
    fn more(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        let mut poll = libc::pollfd {
            fd: self.master.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let left = until.saturating_duration_since(Instant::now()).as_millis() as i32;
        // SAFETY: the pointer is to one valid structure.
        if unsafe { libc::poll(&mut poll, 1, left) } != 1 {
            return false;
        }
        let mut buffer = [0; 4096];
        match self.master.read(&mut buffer) {
            Ok(read @ 1..) => {
                self.seen
                    .push_str(&String::from_utf8_lossy(&buffer[..read]));
                true
            }
            _ => false,
        }
    }

    pub fn send(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("typed");
    }

    /// Whether the terminal echoes its input.
    pub fn echoes(&self) -> bool {
        // SAFETY: the descriptor is open, and the kernel fills in plain data.
        unsafe {
            let mut state: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.master.as_raw_fd(), &mut state), 0);
            state.c_lflag & libc::ECHO != 0
        }
    }

    /// The exit code, after all output was read.
    pub fn finish(&mut self) -> Option<i32> {
        while self.more() {}
        self.child.wait().expect("ended").code()
    }
}
