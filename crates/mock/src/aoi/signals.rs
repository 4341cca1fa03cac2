//! SIGINT and SIGTERM: the first one ends the run after a complete line, a second one exits at
//! once.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

static FIRST: AtomicI32 = AtomicI32::new(0);

/// Maximum time until a sleeping process notices a signal.
const SLICE: Duration = Duration::from_millis(10);

/// Records the signal.
pub fn record(signal: i32) {
    // SAFETY: the handler only touches an atomic and, on the second signal, `_exit`.
    let _ = unsafe {
        signal_hook::low_level::register(signal, move || {
            if FIRST.swap(signal, Ordering::Relaxed) != 0 {
                signal_hook::low_level::exit(128 + signal);
            }
        })
    };
}

/// Ignores the signal.
pub fn ignore(signal: i32) {
    // SAFETY: changes the disposition of one signal.
    unsafe {
        libc::signal(signal, libc::SIG_IGN);
    }
}

/// The received signal, if any.
pub fn received() -> Option<i32> {
    match FIRST.load(Ordering::Relaxed) {
        signal @ (SIGINT | SIGTERM) => Some(signal),
        _ => None,
    }
}

/// Sleeps until the time is over or a signal arrives.
pub fn sleep(time: Duration) {
    let end = Instant::now().checked_add(time);
    while received().is_none() {
        let left = match end {
            Some(end) => end.saturating_duration_since(Instant::now()),
            None => SLICE,
        };
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(SLICE));
    }
}
