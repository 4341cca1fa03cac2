//! What probes of a bundle and probes of a host have in common: a log of all that happens,
//! verdicts, and a case that comes to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::run::Setting;
use crate::run::case::{Blocked, Played};
use crate::run::prompts::NO_PROMPT;
use crate::suite::{Case, What};
use agentproto_wire::{Direction, Transcript};

/// The log shows so much of a long line.
const SHOWN: usize = 1 << 20;

/// The probes of one kind, each with the statements that it can decide.
pub struct Probes(pub &'static [(&'static str, &'static [&'static str])]);

impl Probes {
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Statements that a probe can decide.
    pub fn decided_by(&self, probe: &str) -> &'static [&'static str] {
        let found = self.0.iter().find(|(name, _)| *name == probe);
        found.map_or(&[], |(_, decides)| decides)
    }
}

/// The names of the probes that a case is made of.
pub fn of(case: &Case) -> impl Iterator<Item = &str> {
    case.steps.iter().filter_map(|step| match &step.what {
        What::Probe(name) => Some(name.as_str()),
        _ => None,
    })
}

/// Waits for the probes of a case. However patient each of them is, a case has an end: `late`
/// says what it means that this one had none within so many seconds.
pub async fn bounded(
    setting: &Setting,
    probes: impl Future<Output = Result<(), Blocked>>,
    late: impl FnOnce(u64) -> Blocked,
) -> Option<Blocked> {
    let most = setting.longest_case();
    match tokio::time::timeout(most, probes).await {
        Ok(outcome) => outcome.err(),
        Err(_) => Some(late(most.as_secs())),
    }
}

/// Everything that was said, with the time.
pub struct Log {
    pub begun: Instant,
    transcript: Mutex<Transcript>,
}

impl Log {
    /// Writes a line down, and returns its number.
    pub fn push(&self, direction: Direction, bytes: &[u8]) -> u64 {
        self.write(direction, bytes, None)
    }

    /// As `push`, and of a long line only the beginning.
    pub fn push_short(&self, direction: Direction, bytes: &[u8]) -> u64 {
        let kept = bytes.get(..SHOWN);
        let length = kept.map(|_| bytes.len() as u64);
        self.write(direction, kept.unwrap_or(bytes), length)
    }

    fn write(&self, direction: Direction, bytes: &[u8], length: Option<u64>) -> u64 {
        let at = self.begun.elapsed();
        let mut transcript = self.transcript.lock();
        transcript.push(direction, at, bytes, true, length)
    }

    /// Everything that was written down so far.
    pub fn lines(&self) -> Vec<String> {
        let transcript = self.transcript.lock();
        transcript.lines().map(|line| line.text()).collect()
    }

    /// The transcript, for who writes raw lines into it; `put_back` has it afterwards.
    pub fn take(&self) -> Transcript {
        std::mem::take(&mut *self.transcript.lock())
    }

    pub fn put_back(&self, transcript: Transcript) {
        *self.transcript.lock() = transcript;
    }
}

/// Where a probe does its work; `subject` is what it is about.
pub struct Stand<'a, S> {
    pub subject: S,
    pub setting: &'a Setting,
    pub root: PathBuf,
    pub log: Arc<Log>,
    pub played: Played,
}

impl<'a, S> Stand<'a, S> {
    /// `subject` is made with the log that it writes into.
    pub fn with(setting: &'a Setting, root: &Path, subject: impl FnOnce(&Arc<Log>) -> S) -> Self {
        let log = Arc::new(Log {
            begun: Instant::now(),
            transcript: Mutex::default(),
        });
        Stand {
            subject: subject(&log),
            setting,
            root: root.to_owned(),
            log,
            played: Played::default(),
        }
    }

    /// What was judged before a probe broke off stays judged.
    pub fn finish(mut self, case: &Case, blocked: Option<Blocked>, took: Duration) -> Played {
        if let Some(blocked) = &blocked {
            self.played.break_off(case, blocked);
        }
        self.played.duration = took;
        self.played.transcript = self.log.take();
        self.played
    }

    pub fn met(&mut self, id: &str, lines: &[u64]) {
        self.played.met(id, lines);
    }

    pub fn broken(&mut self, id: &str, message: impl Into<String>, lines: &[u64]) {
        self.played.broken(id, message, lines);
    }

    pub fn doubtful(&mut self, id: &str, message: impl Into<String>, lines: &[u64]) {
        self.played.doubtful(id, message, lines);
    }

    pub fn verdict(&mut self, id: &str, against: Option<String>, lines: &[u64]) {
        self.played.verdict(id, against, lines);
    }

    pub fn open(&mut self, id: &str, why: Blocked) {
        self.played.open(id, why);
    }

    /// The prompt of a key, or a skip that says so.
    pub fn need_prompt(&self, key: &str) -> Result<String, Blocked> {
        let known = self.setting.prompts.get(key).cloned();
        known.ok_or_else(|| {
            Blocked::Skip(format!(
                "{NO_PROMPT}: put `{key}` into the file of --prompts"
            ))
        })
    }
}
