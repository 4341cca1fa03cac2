//! SIGINT and SIGTERM: finish the file under way, say that the run was interrupted, leave
//! with the conventional code.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit;

/// A signal is noticed within so long.
#[cfg(agents)]
pub const NAP: std::time::Duration = std::time::Duration::from_millis(50);

pub static STOP: AtomicBool = AtomicBool::new(false);

/// The command knows that a signal came, and tells of it itself.
static HEARD: AtomicBool = AtomicBool::new(false);

#[cfg(unix)]
static TERMINATED: AtomicBool = AtomicBool::new(false);

/// The command listens itself, and nothing is noted here meanwhile.
static HANDED_OVER: AtomicBool = AtomicBool::new(false);

/// Takes both signals from now on; a second one ends the process at once.
#[cfg(unix)]
pub fn watch() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    static ONCE: std::sync::Once = std::sync::Once::new();
    HANDED_OVER.store(false, Ordering::Relaxed);
    ONCE.call_once(|| {
        for signal in [SIGINT, SIGTERM] {
            // SAFETY: the handler only touches atomics and, on the second signal, `_exit`.
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

/// The caller listens from now on: the code of a signal that came before, which is the caller's to
/// tell of.
#[cfg(agents)]
pub fn hand_over() -> Option<u8> {
    HANDED_OVER.store(true, Ordering::Relaxed);
    let came = code();
    STOP.store(false, Ordering::Relaxed);
    TERMINATED.store(false, Ordering::Relaxed);
    came
}

/// What may take its time, or the signal that comes before it is done.
#[cfg(agents)]
pub fn unless_stopped<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, crate::cli::Failure> {
    use crate::cli::Failure;
    use std::sync::mpsc::RecvTimeoutError;
    let (say, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || say.send(work()));
    loop {
        match done.recv_timeout(NAP) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(code) = interrupted() {
                    return Err(Failure::interrupted(code));
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(exit::INTERNAL, "a thread of ours ended early"));
            }
        }
    }
}

/// The exit code of an interrupted run, for whoever tells of it.
pub fn interrupted() -> Option<u8> {
    let code = code();
    if code.is_some() {
        HEARD.store(true, Ordering::Relaxed);
    }
    code
}

/// A signal came, and nobody told of it yet.
pub fn is_unheard() -> bool {
    STOP.load(Ordering::Relaxed) && !HEARD.load(Ordering::Relaxed)
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
