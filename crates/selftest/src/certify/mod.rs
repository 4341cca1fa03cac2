//! Who judges the judge: every mutant of the mock agents must be caught with its own statement,
//! and no conforming variant may be blamed for anything.

mod bench;
mod field;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;

use crate::frame::{self, Caught, Count, Spared};
use crate::{lifecycle, sessions};
use agentproto_harness::model::{CaseResult, Verdict};
use agentproto_harness::run::Progress;
use agentproto_harness::run::process::StartError;
use agentproto_harness::suite::selection::begins;
use agentproto_mock::Kind;
use agentproto_mock::model::Mutant;
use bench::{Base, Bench};
use field::{Bundles, Field};

/// Cases side by side.
const JOBS: usize = 2;

pub type Outcome = frame::Outcome<MutantRow, VariantRow>;

#[derive(Clone, Debug, Serialize)]
pub struct MutantRow {
    pub mock: &'static str,
    pub mutant: String,
    pub requirement: String,
    pub wrong: String,
    /// Something failed that does not fail with the correct mock.
    pub killed: bool,
    /// Its own statement did.
    pub attributed: bool,
    /// How that was told: `fail`, or `warn` where the text only advises.
    pub verdict: Option<&'static str>,
    /// Lines that prove it.
    pub evidence: usize,
    /// Other statements that failed beside it.
    pub also: Vec<String>,
}

impl MutantRow {
    fn new<T>(mock: &'static str, mutant: &Mutant<T>) -> MutantRow {
        MutantRow {
            mock,
            mutant: mutant.id.to_owned(),
            requirement: mutant.requirement.to_owned(),
            wrong: mutant.wrong.to_owned(),
            killed: false,
            attributed: false,
            verdict: None,
            evidence: 0,
            also: Vec::new(),
        }
    }

    fn judge(&mut self, base: &Base, results: &[CaseResult]) {
        let new = results.iter().filter(|r| {
            // A fault of ours kills nothing.
            let blames = matches!(r.verdict, Verdict::Fail | Verdict::Warn);
            blames
                && !base
                    .blamed
                    .contains(&(r.case.clone(), r.requirement.clone()))
        });
        let mut also = BTreeSet::new();
        for result in new {
            self.killed = true;
            if result.requirement != self.requirement {
                also.insert(result.requirement.clone());
                continue;
            }
            self.attributed = true;
            // A failure outweighs a warning.
            if self.verdict.is_none() || result.verdict == Verdict::Fail {
                self.verdict = Some(result.verdict.as_str());
            }
            self.evidence = self.evidence.max(result.evidence.len());
        }
        self.also = also.into_iter().collect();
    }
}

impl Caught for MutantRow {
    fn name(&self) -> &str {
        &self.mutant
    }
    fn wrong(&self) -> &str {
        &self.wrong
    }
    fn is_killed(&self) -> bool {
        self.killed
    }
    fn is_attributed(&self) -> bool {
        self.attributed
    }
    fn missed(&self) -> Option<String> {
        let how = match self.killed {
            _ if self.attributed => return None,
            true => format!("caught only as {}", self.also.join(", ")),
            false => "SURVIVED".to_owned(),
        };
        Some(format!("{} ({}): {how}", self.mutant, self.requirement))
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct VariantRow {
    pub mock: &'static str,
    pub variant: String,
    pub what: String,
    /// Statements that passed, so that nothing is proven by nothing.
    pub passed: usize,
    /// `REQ: message` of everything that was blamed.
    pub blamed: Vec<String>,
}

impl VariantRow {
    fn new(mock: &'static str, variant: &str, what: &str) -> VariantRow {
        VariantRow {
            mock,
            variant: variant.to_owned(),
            what: what.to_owned(),
            passed: 0,
            blamed: Vec::new(),
        }
    }

    /// How many passed, and everything that was blamed.
    fn tally(&mut self, results: &[CaseResult]) {
        let blamed = results.iter().filter(is_blame);
        let blamed = blamed.map(|r| format!("{} ({}): {}", r.requirement, r.case, r.message));
        let passed = results.iter().filter(|r| r.verdict == Verdict::Pass);
        self.passed = passed.count();
        self.blamed = blamed.collect();
    }
}

impl Spared for VariantRow {
    fn name(&self) -> &str {
        &self.variant
    }
    fn proven(&self) -> usize {
        self.passed
    }
    fn blamed(&self) -> &[String] {
        &self.blamed
    }
    fn complaints(&self) -> Vec<String> {
        let blamed = self.blamed.iter().map(String::as_str);
        let nothing = (self.passed == 0).then_some("nothing passed");
        let all = blamed.chain(nothing);
        all.map(|what| format!("variant {}: {what}", self.variant))
            .collect()
    }
}

impl Outcome {
    pub fn is_sound(&self) -> bool {
        !self.partial
            && !self.mutants.is_empty()
            && self.attributed() == self.mutants.len()
            && self.spares_all()
    }
}

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// For a mutant first the cases of its statement; all of them only where it survives. Of a
    /// variant every second case: the even ones of one, the odd ones of the next.
    Quick,
    /// Every case over every mutant.
    Full,
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct Trial {
    pub depth: Depth,
    /// Only these: ids of mutants, statements that they break, names of variants, or beginnings
    /// of these; or all of one mock.
    pub only: Vec<String>,
}

impl Trial {
    fn has(&self, names: &[&str]) -> bool {
        let wanted = |name: &&str| self.only.iter().any(|only| begins(only, name));
        self.only.is_empty() || names.iter().any(wanted)
    }
}

pub async fn run(
    trial: &Trial,
    stop: &'static AtomicBool,
    heard: Arc<dyn Progress>,
) -> Result<Outcome, StartError> {
    let begun = Instant::now();
    let heard = Count::new(heard);
    // They mostly wait, each for silence of its own: two of them side by side.
    let (agents, targets) =
        tokio::join!(agents(trial, stop, &heard), targets(trial, stop, &heard),);
    let mut outcome = Outcome::default();
    outcome.add(agents?);
    outcome.add(targets?);
    outcome.partial = stop.load(Ordering::Relaxed);
    outcome.wall_ms = begun.elapsed().as_secs_f64() * 1000.0;
    Ok(outcome)
}

/// The mocks that speak on their stdio.
async fn agents(
    trial: &Trial,
    stop: &'static AtomicBool,
    heard: &Count,
) -> Result<Outcome, StartError> {
    let bench = |kind| Bench::new(kind, trial, stop);
    let (acp, next, mcp) = (bench(Kind::Acp)?, bench(Kind::AcpV2)?, bench(Kind::Mcp)?);
    let mut outcome = frame::run(&acp, heard).await;
    let (next, mcp) = tokio::join!(frame::run(&next, heard), frame::run(&mcp, heard));
    outcome.add(next);
    outcome.add(mcp);
    Ok(outcome)
}

/// What is made for the trial.
async fn targets(
    trial: &Trial,
    stop: &'static AtomicBool,
    heard: &Count,
) -> Result<Outcome, StartError> {
    let (mutants, variants) = (lifecycle::mutants(), lifecycle::variants());
    let bundles = Field::new(Bundles, mutants, variants, trial, stop);
    let mut outcome = frame::run(&bundles, heard).await;
    if stop.load(Ordering::Relaxed) {
        return Ok(outcome);
    }
    let stage = sessions::Stage::open().map_err(|reason| StartError::Failed {
        program: "agentproto".to_owned(),
        reason,
    })?;
    let (mutants, variants) = (sessions::mutants(), sessions::variants());
    let hosts = Field::new(stage, mutants, variants, trial, stop);
    outcome.add(frame::run(&hosts, heard).await);
    hosts.ground.close().await;
    Ok(outcome)
}

fn is_blame(row: &&CaseResult) -> bool {
    matches!(row.verdict, Verdict::Fail | Verdict::Warn | Verdict::Error)
}
