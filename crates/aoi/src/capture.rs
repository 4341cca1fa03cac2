//! Everything recorded from one run of the tool.

use std::ffi::OsString;
use std::time::Duration;

use crate::run::{ReadMode, StdoutTarget};

/// Name of the plain run: the arguments `ok` of the probe file, without any change.
pub const PLAIN_RUN: &str = "ok";

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    Code(i32),
    Signal(i32),
    /// The run exceeded its time limit and was killed.
    TimedOut,
}

impl ExitKind {
    pub fn is_success(self) -> bool {
        self == ExitKind::Code(0)
    }

    /// Text for messages: `exit 64`, `killed by signal 13`, `still running after its time limit`.
    pub fn describe(self) -> String {
        match self {
            ExitKind::Code(code) => format!("exit {code}"),
            ExitKind::Signal(number) => format!("killed by signal {number}"),
            ExitKind::TimedOut => "still running after its time limit".to_owned(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Capture {
    /// Name of the probed command, or `(tool)`.
    pub command: String,
    /// Name of the probe, for messages: [`PLAIN_RUN`], `unknown flag`, `SIGINT`.
    pub probe: String,
    pub argv: Vec<OsString>,
    /// Names of the environment variables that were set in addition to the default ones.
    pub env: Vec<String>,
    /// What stdout was connected to.
    pub output: StdoutTarget,
    /// How stdout was read.
    pub reader: ReadMode,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// What the tool wrote to its controlling terminal. `None` if it had none.
    pub terminal: Option<Vec<u8>>,
    /// Whether the tool printed more than is kept.
    pub flooded: bool,
    pub end: ExitKind,
    pub elapsed: Duration,
    /// How long the run waited because the machine was busy with other processes.
    pub delay: Duration,
    /// `false` if the process could not be started. Nothing was observed of the tool then.
    pub started: bool,
    /// CPU time of the tool and all its child processes.
    pub cpu: Duration,
    /// Offsets in stdout, each with the time at which all bytes before it had arrived.
    pub arrivals: Vec<(usize, Duration)>,
    /// Whether the reader completed its action (a pause, a signal, a closed pipe) while the tool
    /// was running.
    pub action_done: bool,
    /// Whether the tool was still running shortly after that action.
    pub alive_after_action: bool,
    /// Number of processes that were still running when the tool had exited.
    pub survivors: u32,
    /// Whether one of them held stdout open, so that the reader had to wait.
    pub stdout_held: bool,
    /// Number of packets and connections that an isolated run tried to send to a network.
    pub network_attempts: u64,
    /// Time from the action (a signal, a closed pipe) to the exit.
    pub exit_delay: Option<Duration>,
    /// Whether stdout was expected to be in machine mode.
    pub is_machine: bool,
    /// Requested schema version, if any.
    pub version: Option<String>,
    /// Whether the command line contained fake secrets (canaries).
    pub canaries: bool,
}

impl Capture {
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Whether the run was stopped from outside or not read to its end. Its output may end
    /// anywhere.
    pub fn is_incomplete(&self) -> bool {
        self.exit_delay.is_some() || self.flooded || !matches!(self.end, ExitKind::Code(_))
    }

    /// Whether the engine read stdout.
    pub fn was_read(&self) -> bool {
        !matches!(self.output, StdoutTarget::Closed | StdoutTarget::Full)
    }

    /// Whether the run waited for the machine for more than half of its time. Its timing is then
    /// not the tool's fault.
    pub fn is_delayed(&self) -> bool {
        self.delay > self.elapsed / 2
    }

    /// Time at which the output up to `offset` had arrived.
    pub fn arrival_time(&self, offset: usize) -> Option<Duration> {
        let after = self.arrivals.iter().find(|(end, _)| *end >= offset);
        after.map(|(_, at)| *at)
    }
}
