//! Progress of a long run, shown at the terminal.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use crate::cli::args::Global;
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
