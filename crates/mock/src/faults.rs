//! Real misbehavior of a process: exits, signals, daemons, floods.

use std::io::{self, Write};

use crate::mailbox::Mailbox;
use crate::rpc::RpcPeer;
use crate::turn::TurnResult;

/// Block size of a flood in bytes. Large blocks keep the flood fast.
const BLOCK: usize = 64 << 10;

/// Ends the process without flushing its output.
pub fn exit(code: u8) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Ends the process with a signal. If the signal has no effect, exits with 128 plus its number, as
/// a shell does.
pub fn kill_self(signal: i32) -> ! {
    // SAFETY: plain system calls on our own process. `raise` sends the signal to this thread, so it
    // takes effect before `raise` returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    exit(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

pub fn ignore_sigterm() {
    // SAFETY: changes the disposition of one signal.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
    }
}

/// Highest file descriptor to close. A mock opens only a few files.
const MAX_FD: i32 = 1024;

/// Leaves a process behind that runs in its own session, sleeps for `seconds` and then exits.
pub fn daemon(seconds: u32, hold_output: bool) {
    // SAFETY: between `fork` and `_exit`, only calls that are safe in the child of a multithreaded
    // process.
    unsafe {
        let child = libc::fork();
        if child < 0 {
            return;
        }
        if child > 0 {
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            return;
        }
        libc::setsid();
        if libc::fork() != 0 {
            libc::_exit(0);
        }
        if !hold_output {
            // Close more than stdin, stdout and stderr, because the mock has an extra handle for
            // its output.
            for fd in 0..MAX_FD {
                libc::close(fd);
            }
        }
        let mut left = seconds;
        while left > 0 {
            left = libc::sleep(left);
        }
        libc::_exit(0);
    }
}

/// Writes `bytes` filler bytes.
fn fill(out: &mut dyn Write, mut bytes: u64) -> io::Result<()> {
    let block = [b'x'; BLOCK];
    while bytes > 0 {
        let length = usize::try_from(bytes).unwrap_or(BLOCK).min(BLOCK);
        out.write_all(block.get(..length).unwrap_or(&block))?;
        bytes -= length as u64;
    }
    Ok(())
}

/// Number of flood events between two checks of the mailbox.
const BATCH: u64 = 256;

/// Sends numbered events as fast as the reader accepts them. `around` is the JSON before and after
/// the text of an event.
pub fn flood(
    peer: &RpcPeer,
    mailbox: &Mailbox,
    around: &(String, String),
    events: u64,
) -> TurnResult {
    let (head, tail) = around;
    let mut sent = 0;
    while sent < events {
        mailbox.check_cancelled()?;
        let batch = BATCH.min(events - sent);
        let mut bytes = Vec::new();
        for number in sent + 1..=sent + batch {
            let _ = write!(bytes, "{head}{number} {tail}");
        }
        peer.raw(|out| out.write_all(&bytes));
        sent += batch;
    }
    Ok(())
}

/// Sends one event whose text has `bytes` bytes.
pub fn huge_line(peer: &RpcPeer, around: &(String, String), bytes: u64) {
    peer.raw(|out| {
        out.write_all(around.0.as_bytes())?;
        fill(out, bytes)?;
        out.write_all(around.1.as_bytes())
    });
}

/// Writes `bytes` bytes of noise lines to stderr.
pub fn stderr_flood(bytes: u64) {
    const LINE: &[u8] =
        b"mock: noise on stderr, line after line, more than anybody wants to read\n";
    let block = LINE.repeat(BLOCK / LINE.len());
    let mut err = io::stderr().lock();
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(BLOCK).min(block.len());
        if err
            .write_all(block.get(..length).unwrap_or(&block))
            .is_err()
        {
            return;
        }
        left -= length as u64;
    }
}
