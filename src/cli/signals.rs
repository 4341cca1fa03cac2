//! SIGINT and SIGTERM: the current file is finished, the run is reported as interrupted, and the
//! process exits with the conventional code.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit;

/// Maximum time until a signal is noticed.
#[cfg(agents)]
pub const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

pub static STOP: AtomicBool = AtomicBool::new(false);

/// Whether the command knows about the signal and reports it itself.
static REPORTED: AtomicBool = AtomicBool::new(false);

#[cfg(unix)]
static TERMINATED: AtomicBool = AtomicBool::new(false);

/// Whether the command handles signals itself. Then nothing is recorded here.
static HANDED_OVER: AtomicBool = AtomicBool::new(false);

/// Handles both signals from now on. A second one ends the process at once.
#[cfg(unix)]
pub fn watch() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    static ONCE: std::sync::Once = std::sync::Once::new();
    HANDED_OVER.store(false, Ordering::Relaxed);
    ONCE.call_once(|| {
        for signal in [SIGINT, SIGTERM] {
            // SAFETY: the handler only uses atomics and, on the second signal, `_exit`.
            let _ = unsafe {
                signal_hook::low_level::register(signal, move || {
                    if HANDED_OVER.load(Ordering::Relaxed) {
                        return;
                    }
                    if signal == SIGTERM {
                        TERMINATED.store(true, Ordering::Relaxed);
                    }
                    if STOP.swap(true, Ordering::Relaxed) {
                        signal_hook::low_level::exit(128 + signal);
                    }
                })
            };
        }
    });
}

#[cfg(not(unix))]
pub fn watch() {}

#[cfg(agents)]
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Whether `stop_without_reader` stopped the work.
#[cfg(agents)]
pub fn is_reader_gone() -> bool {
    READER_GONE.load(Ordering::Relaxed)
}

/// Stops the work, as a signal would, when the reader of stdout is gone. A command that prints its
/// results at the end would notice that only then.
#[cfg(agents)]
pub fn stop_without_reader() {
    std::thread::spawn(|| {
        let mut stdout = libc::pollfd {
            fd: libc::STDOUT_FILENO,
            events: 0,
            revents: 0,
        };
        // SAFETY: one valid entry. Without requested events, only errors of the descriptor end the wait.
        let gone = unsafe { libc::poll(&mut stdout, 1, -1) } == 1;
        if gone && stdout.revents & libc::POLLERR != 0 {
            READER_GONE.store(true, Ordering::Relaxed);
            STOP.store(true, Ordering::Relaxed);
        }
    });
}

/// The caller handles signals from now on. Returns the exit code of a signal that arrived before,
/// which the caller must report.
#[cfg(agents)]
pub fn hand_over() -> Option<u8> {
    HANDED_OVER.store(true, Ordering::Relaxed);
    let earlier = code();
    STOP.store(false, Ordering::Relaxed);
    TERMINATED.store(false, Ordering::Relaxed);
    earlier
}

/// Runs slow work on a thread, and returns early if a signal arrives.
#[cfg(agents)]
pub fn run_until_signal<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, crate::cli::Failure> {
    use crate::cli::Failure;
    use std::sync::mpsc::RecvTimeoutError;
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    loop {
        match done.recv_timeout(POLL_INTERVAL) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(code) = interrupted() {
                    return Err(Failure::interrupted(code));
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(exit::INTERNAL, "a worker thread ended early"));
            }
        }
    }
}

/// The exit code of an interrupted run. The caller must report the interrupt.
pub fn interrupted() -> Option<u8> {
    let code = code();
    if code.is_some() {
        REPORTED.store(true, Ordering::Relaxed);
    }
    code
}

/// Whether a signal arrived that was not reported yet.
pub fn is_unreported() -> bool {
    STOP.load(Ordering::Relaxed) && !REPORTED.load(Ordering::Relaxed)
}

pub fn code() -> Option<u8> {
    if !STOP.load(Ordering::Relaxed) {
        return None;
    }
    #[cfg(unix)]
    if TERMINATED.load(Ordering::Relaxed) {
        return Some(exit::TERMINATED);
    }
    Some(exit::INTERRUPTED)
}
