//! Self-test of `certify`: every mutant of the mock agents must be caught with its own
//! requirement, and no conforming variant may get any finding.

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

/// Maximum number of concurrent cases per target.
const JOBS: usize = 2;

/// Results of the self-test.
pub type Outcome = frame::Outcome<MutantRow, VariantRow>;

/// Result for a mutant.
#[derive(Clone, Debug, Serialize)]
pub struct MutantRow {
    /// Name of the mock.
    pub mock: &'static str,
    /// Id of the mutant.
    pub mutant: String,
    /// Requirement that it breaks.
    pub requirement: String,
    /// Its defect.
    pub wrong: String,
    /// Whether anything fails that does not fail with the correct mock.
    pub killed: bool,
    /// Whether its own requirement fails.
    pub attributed: bool,
    /// Verdict on its own requirement: `fail`, or `warn` for a recommendation.
    pub verdict: Option<&'static str>,
    /// Number of lines of evidence.
    pub evidence: usize,
    /// Other requirements that fail.
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
            // An internal error does not count as killed.
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
            // A failure takes precedence over a warning.
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

/// Result for a conforming variant.
#[derive(Clone, Debug, Serialize)]
pub struct VariantRow {
    /// Name of the mock.
    pub mock: &'static str,
    /// Name of the variant.
    pub variant: String,
    /// How it differs.
    pub what: String,
    /// Number of requirements that passed. Zero means that the variant was not really tested.
    pub passed: usize,
    /// Findings, which are all false positives, as `REQ (case): message`.
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

    /// Counts passed requirements and collects findings.
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
    /// Whether a complete run passed: every mutant is caught, and no variant has a finding.
    pub fn is_sound(&self) -> bool {
        !self.partial
            && !self.mutants.is_empty()
            && self.attributed() == self.mutants.len()
            && self.spares_all()
    }
}

/// How thorough the self-test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// A mutant runs the cases of its requirement first, and all cases only if it survives. A
    /// variant runs every second case, alternating between variants.
    Quick,
    /// Every case runs on every mutant and variant.
    Full,
}

/// Options of the self-test.
#[derive(Clone, Debug)]
pub struct Trial {
    /// How thorough it is.
    pub depth: Depth,
    /// What to test: ids of mutants, requirements, names of variants, prefixes of these, or names
    /// of mocks. Empty means everything.
    pub only: Vec<String>,
}

impl Trial {
    fn has(&self, names: &[&str]) -> bool {
        let wanted = |name: &&str| self.only.iter().any(|only| begins(only, name));
        self.only.is_empty() || names.iter().any(wanted)
    }
}

/// Runs the self-test.
pub async fn run(
    trial: &Trial,
    stop: &'static AtomicBool,
    heard: Arc<dyn Progress>,
) -> Result<Outcome, StartError> {
    let begun = Instant::now();
    let heard = Count::new(heard);
    // Both mostly wait for timeouts, so run them concurrently.
    let (agents, targets) =
        tokio::join!(agents(trial, stop, &heard), targets(trial, stop, &heard),);
    let mut outcome = Outcome::default();
    outcome.add(agents?);
    outcome.add(targets?);
    outcome.partial = stop.load(Ordering::Relaxed);
    outcome.wall_ms = begun.elapsed().as_secs_f64() * 1000.0;
    Ok(outcome)
}

/// Tests the mocks that use stdio.
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

/// Tests the generated targets.
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
