//! Connects our terminal to the terminal of a child process.

use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use agentproto_sandbox::spawn::PseudoTerminal;

pub struct Bridge {
    output: JoinHandle<()>,
    input: JoinHandle<()>,
    _raw: Option<RawMode>,
}

/// Starts copying in both directions.
pub fn join(terminal: PseudoTerminal) -> Bridge {
    let terminal = Arc::new(terminal);
    let raw = RawMode::enter();
    let (typed, mut keys) = mpsc::channel::<Vec<u8>>(16);
    // A read of our stdin cannot be canceled; the thread ends with the process.
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = std::io::stdin().lock().read(&mut buffer) {
            let bytes = buffer.get(..read).unwrap_or_default().to_vec();
            if typed.blocking_send(bytes).is_err() {
                return;
            }
        }
    });
    let to = Arc::clone(&terminal);
    let input = tokio::spawn(async move {
        while let Some(bytes) = keys.recv().await {
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // At the end of our input, send Ctrl-D as if it had been typed.
        let _ = to.write_all(&[4]).await;
    });
    let output = tokio::spawn(async move {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = terminal.read(&mut buffer).await {
            let mut out = std::io::stdout().lock();
            let bytes = buffer.get(..read).unwrap_or_default();
            if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    });
    Bridge {
        output,
        input,
        _raw: raw,
    }
}

impl Bridge {
    /// Waits for the last output.
    pub async fn finish(self) {
        let _ = self.output.await;
        self.input.abort();
    }
}

/// Puts our terminal into raw mode until it is dropped.
struct RawMode {
    before: libc::termios,
}

impl RawMode {
    fn enter() -> Option<Self> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        // SAFETY: both `termios` values are local and valid.
        unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(stdin.as_raw_fd(), &mut before) != 0 {
                return None;
            }
            let mut raw = before;
            libc::cfmakeraw(&mut raw);
            libc::tcsetattr(stdin.as_raw_fd(), libc::TCSANOW, &raw);
            Some(Self { before })
        }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // SAFETY: `before` is a valid `termios` value.
        unsafe { libc::tcsetattr(0, libc::TCSANOW, &self.before) };
    }
}
