//! Progress of a long run, shown on stderr.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::cli::args::Global;
use agentproto_aoi::session::RunObserver;
use agentproto_harness::run::Progress;

/// A counter, if stderr is a terminal.
pub fn for_terminal(global: &Global) -> Arc<dyn Progress> {
    match std::io::stderr().is_terminal() && !global.quiet {
        true => Arc::new(Counter),
        false => Arc::new(()),
    }
}

struct Counter;

impl Progress for Counter {
    fn done(&self, what: &str, done: usize, all: usize) {
        let mut err = std::io::stderr().lock();
        let end = match done == all {
            true => "\r\x1b[K",
            false => "",
        };
        let _ = write!(err, "\r\x1b[K{done}/{all} {what}{end}");
        let _ = err.flush();
    }
}

/// Time between two lines of progress without a terminal.
const INTERVAL: Duration = Duration::from_secs(10);

/// Shows which command `aoi-lint` runs: on a terminal in one line that changes, otherwise in a line
/// every ten seconds.
pub fn of_tool(global: &Global) -> RunObserver {
    if global.quiet {
        return RunObserver::default();
    }
    let is_terminal = std::io::stderr().is_terminal();
    let (runs, shown, start) = (AtomicU64::new(0), AtomicU64::new(1), Instant::now());
    RunObserver::new(move |command, run| {
        let number = runs.fetch_add(1, Ordering::Relaxed) + 1;
        let line = tool_line(number, command, run);
        if is_terminal {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\x1b[K{line}");
            let _ = err.flush();
            return;
        }
        let next = shown.load(Ordering::Relaxed);
        let is_due = start.elapsed().as_secs() >= next.saturating_mul(INTERVAL.as_secs());
        let passed = start.elapsed().as_secs() / INTERVAL.as_secs().max(1) + 1;
        let is_first =
            || shown.compare_exchange(next, passed, Ordering::Relaxed, Ordering::Relaxed);
        if is_due && is_first().is_ok() {
            let _ = writeln!(std::io::stderr(), "aoi-lint: {line}");
        }
    })
}

fn tool_line(number: u64, command: &str, run: &str) -> String {
    let shown = agentproto_text::escape_line(&format!("{command}: {run}")).into_owned();
    format!("run {number}, {}", agentproto_text::clip(&shown, 60))
}

/// Removes the line that `of_tool` shows on a terminal.
pub fn clear(global: &Global) {
    if std::io::stderr().is_terminal() && !global.quiet {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}
