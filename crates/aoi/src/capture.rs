//! What one run of the target showed.

use std::ffi::OsString;
use std::time::Duration;

use crate::run::{Output, Reader};

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Code(i32),
    Signal(i32),
    /// It ran into its time limit and was ended.
    TimedOut,
}

impl End {
    pub fn is_success(self) -> bool {
        self == End::Code(0)
    }

    /// In words: `exit 64`, `killed by signal 13`, `still running after its time limit`.
    pub fn told(self) -> String {
        match self {
            End::Code(code) => format!("exit {code}"),
            End::Signal(number) => format!("killed by signal {number}"),
            End::TimedOut => "still running after its time limit".to_owned(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Capture {
    /// The command of the probe that this belongs to, or the tool itself.
    pub command: String,
    /// What was tried, for messages: `ok`, `unknown flag`, `SIGINT`.
    pub probe: String,
    pub argv: Vec<OsString>,
    /// Variables that were set beside the usual ones, by name.
    pub env: Vec<String>,
    /// What standard output led to.
    pub output: Output,
    /// How it was read.
    pub reader: Reader,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// More was printed than is kept.
    pub flooded: bool,
    pub end: End,
    pub elapsed: Duration,
    /// So long of it the machine was busy with others.
    pub starved: Duration,
    /// `false` where the system refused: nothing was seen of the tool.
    pub started: bool,
    /// Processor time of the target and all that it started.
    pub cpu: Duration,
    /// Offsets of standard output, and when everything before them had come.
    pub arrivals: Vec<(usize, Duration)>,
    /// What the reader had to do was done while the target still ran.
    pub acted: bool,
    /// The target still ran a moment after the act.
    pub outlived: bool,
    /// Processes that were still there when the target had ended.
    pub survivors: u32,
    /// One of them held standard output open, so that its reader had to wait.
    pub held: bool,
    /// From the act (a signal, a closed pipe) to the end.
    pub after_act: Option<Duration>,
    /// Whether its standard output was to be machine mode.
    pub is_machine: bool,
    /// Which schema version was asked for, if one was.
    pub version: Option<String>,
    /// Canaries stand in it in place of secrets.
    pub canaries: bool,
}

impl Capture {
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// It was stopped from outside, or not read to its end: it may end anywhere.
    pub fn was_cut(&self) -> bool {
        self.after_act.is_some() || self.flooded || !matches!(self.end, End::Code(_))
    }

    /// What it printed was read.
    pub fn was_read(&self) -> bool {
        !matches!(self.output, Output::Closed | Output::Full)
    }

    /// More than half of its time went to others: what it shows about time is no fault of its own.
    pub fn is_starved(&self) -> bool {
        self.starved > self.elapsed / 2
    }

    /// When the output up to `offset` had come.
    pub fn arrived(&self, offset: usize) -> Option<Duration> {
        let after = self.arrivals.iter().find(|(end, _)| *end >= offset);
        after.map(|(_, at)| *at)
    }
}
