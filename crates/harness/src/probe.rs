//! Shared code of the probes for bundles and for session hosts: a log of everything that happens,
//! verdicts, and a time limit per case.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::run::RunConfig;
use crate::run::case::{CaseOutcome, NoVerdict};
use crate::run::prompts::MISSING_PROMPT;
use crate::suite::{Case, StepKind};
use agentproto_wire::{Direction, Transcript};

/// Maximum number of bytes that the log keeps of a long line.
const MAX_LINE_BYTES: usize = 1 << 20;

/// The probes of one kind, each with the requirements that it can decide.
pub struct Probes(pub &'static [(&'static str, &'static [&'static str])]);

impl Probes {
    /// Names of the probes.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Requirements that a probe can decide.
    pub fn decided_by(&self, probe: &str) -> &'static [&'static str] {
        let found = self.0.iter().find(|(name, _)| *name == probe);
        found.map_or(&[], |(_, decides)| decides)
    }
}

/// The names of the probes in a case.
pub fn of(case: &Case) -> impl Iterator<Item = &str> {
    case.steps.iter().filter_map(|step| match &step.kind {
        StepKind::Probe(name) => Some(name.as_str()),
        _ => None,
    })
}

/// Runs the probes of a case with a time limit. If they take longer, `late` turns the limit (in
/// seconds) into the reason why the case was aborted.
pub async fn bounded(
    config: &RunConfig,
    probes: impl Future<Output = Result<(), NoVerdict>>,
    late: impl FnOnce(u64) -> NoVerdict,
) -> Option<NoVerdict> {
    let most = config.case_limit();
    match tokio::time::timeout(most, probes).await {
        Ok(outcome) => outcome.err(),
        Err(_) => Some(late(most.as_secs())),
    }
}

/// Transcript of everything that was sent and received, with timestamps.
pub struct Log {
    pub started: Instant,
    transcript: Mutex<Transcript>,
}

impl Log {
    /// Appends a line and returns its number.
    pub fn push(&self, direction: Direction, bytes: &[u8]) -> u64 {
        self.write(direction, bytes, None)
    }

    /// Like `push`, but keeps only the start of a long line.
    pub fn push_short(&self, direction: Direction, bytes: &[u8]) -> u64 {
        let kept = bytes.get(..MAX_LINE_BYTES);
        let length = kept.map(|_| bytes.len() as u64);
        self.write(direction, kept.unwrap_or(bytes), length)
    }

    fn write(&self, direction: Direction, bytes: &[u8], length: Option<u64>) -> u64 {
        let at = self.started.elapsed();
        let mut transcript = self.transcript.lock();
        transcript.push(direction, at, bytes, true, length)
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        let transcript = self.transcript.lock();
        transcript.lines().map(|line| line.text()).collect()
    }

    /// Takes the transcript out, so that raw lines can be written to it. `put_back` restores it.
    pub fn take(&self) -> Transcript {
        std::mem::take(&mut *self.transcript.lock())
    }

    pub fn put_back(&self, transcript: Transcript) {
        *self.transcript.lock() = transcript;
    }
}

/// The environment of a probe. `subject` is what the probe checks.
pub struct ProbeContext<'a, S> {
    pub subject: S,
    pub config: &'a RunConfig,
    pub root: PathBuf,
    pub log: Arc<Log>,
    pub outcome: CaseOutcome,
}

impl<'a, S> ProbeContext<'a, S> {
    /// `subject` is created with the log that it writes to.
    pub fn with(config: &'a RunConfig, root: &Path, subject: impl FnOnce(&Arc<Log>) -> S) -> Self {
        let log = Arc::new(Log {
            started: Instant::now(),
            transcript: Mutex::default(),
        });
        ProbeContext {
            subject: subject(&log),
            config,
            root: root.to_owned(),
            log,
            outcome: CaseOutcome::default(),
        }
    }

    /// Ends the case. Verdicts that were reached before a probe was aborted are kept.
    pub fn finish(
        mut self,
        case: &Case,
        no_verdict: Option<NoVerdict>,
        took: Duration,
    ) -> CaseOutcome {
        if let Some(no_verdict) = &no_verdict {
            self.outcome.abort(case, no_verdict);
        }
        self.outcome.duration = took;
        self.outcome.transcript = self.log.take();
        self.outcome
    }

    pub fn pass(&mut self, id: &str, lines: &[u64]) {
        self.outcome.pass(id, lines);
    }

    pub fn violation(&mut self, id: &str, message: impl Into<String>, lines: &[u64]) {
        self.outcome.violation(id, message, lines);
    }

    pub fn suspicion(&mut self, id: &str, message: impl Into<String>, lines: &[u64]) {
        self.outcome.suspicion(id, message, lines);
    }

    pub fn verdict(&mut self, id: &str, against: Option<String>, lines: &[u64]) {
        self.outcome.verdict(id, against, lines);
    }

    pub fn undecided(&mut self, id: &str, why: NoVerdict) {
        self.outcome.undecided(id, why);
    }

    /// The prompt for a key. Without one, the result is a skip that names the key.
    pub fn need_prompt(&self, key: &str) -> Result<String, NoVerdict> {
        let known = self.config.prompts.get(key).cloned();
        known.ok_or_else(|| {
            NoVerdict::Skip(format!(
                "{MISSING_PROMPT}: add `{key}` to the --prompts file"
            ))
        })
    }
}
