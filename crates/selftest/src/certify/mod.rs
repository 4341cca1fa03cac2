//! Self-test of `certify`: every mutant of the mock agents must be caught with its own
//! requirement, and no conforming variant may get any finding.

mod generated;
mod stdio;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;

use crate::common::{self, MutantResult, ProgressCounter, VariantResult};
use crate::{lifecycle, sessions};
use agentproto_harness::model::{CaseResult, Verdict};
use agentproto_harness::run::Progress;
use agentproto_harness::run::process::StartError;
use agentproto_harness::suite::selection::is_prefix;
use agentproto_mock::AgentKind;
use agentproto_mock::model::Mutant;
use generated::{Bundles, GeneratedTargets};
use stdio::{Reference, StdioMocks};

/// Maximum number of concurrent cases per target.
const JOBS: usize = 2;

/// Results of the self-test.
pub type CertifyResults = common::SelftestResults<MutantRow, VariantRow>;

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
    #[serde(rename = "wrong")]
    pub defect: String,
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
            defect: mutant.defect.to_owned(),
            killed: false,
            attributed: false,
            verdict: None,
            evidence: 0,
            also: Vec::new(),
        }
    }

    fn evaluate(&mut self, reference: &Reference, results: &[CaseResult]) {
        let new = results.iter().filter(|r| {
            // An internal error does not count as killed.
            let is_finding_row = matches!(r.verdict, Verdict::Fail | Verdict::Warn);
            is_finding_row
                && !reference
                    .findings
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

impl MutantResult for MutantRow {
    fn name(&self) -> &str {
        &self.mutant
    }
    fn defect(&self) -> &str {
        &self.defect
    }
    fn is_killed(&self) -> bool {
        self.killed
    }
    fn is_attributed(&self) -> bool {
        self.attributed
    }
    fn failure(&self) -> Option<String> {
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
    #[serde(rename = "blamed")]
    pub false_positives: Vec<String>,
}

impl VariantRow {
    fn new(mock: &'static str, variant: &str, what: &str) -> VariantRow {
        VariantRow {
            mock,
            variant: variant.to_owned(),
            what: what.to_owned(),
            passed: 0,
            false_positives: Vec::new(),
        }
    }

    /// Counts passed requirements and collects findings.
    fn tally(&mut self, results: &[CaseResult]) {
        let findings = results.iter().filter(is_finding);
        let findings = findings.map(|r| format!("{} ({}): {}", r.requirement, r.case, r.message));
        let passed = results.iter().filter(|r| r.verdict == Verdict::Pass);
        self.passed = passed.count();
        self.false_positives = findings.collect();
    }
}

impl VariantResult for VariantRow {
    fn name(&self) -> &str {
        &self.variant
    }
    fn verified(&self) -> usize {
        self.passed
    }
    fn false_positives(&self) -> &[String] {
        &self.false_positives
    }
    fn problems(&self) -> Vec<String> {
        let findings = self.false_positives.iter().map(String::as_str);
        let nothing = (self.passed == 0).then_some("nothing passed");
        let all = findings.chain(nothing);
        all.map(|what| format!("variant {}: {what}", self.variant))
            .collect()
    }
}

impl CertifyResults {
    /// Whether a complete run passed: every mutant is caught, and no variant has a finding.
    pub fn is_sound(&self) -> bool {
        !self.partial
            && !self.mutants.is_empty()
            && self.attributed() == self.mutants.len()
            && self.has_no_false_positives()
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
pub struct SelftestOptions {
    /// How thorough it is.
    pub depth: Depth,
    /// What to test: ids of mutants, requirements, names of variants, prefixes of these, or names
    /// of mocks. Empty means everything.
    pub only: Vec<String>,
}

impl SelftestOptions {
    fn has(&self, names: &[&str]) -> bool {
        let wanted = |name: &&str| self.only.iter().any(|only| is_prefix(only, name));
        self.only.is_empty() || names.iter().any(wanted)
    }
}

/// Runs the self-test.
pub async fn run(
    options: &SelftestOptions,
    stop: &'static AtomicBool,
    progress: Arc<dyn Progress>,
) -> Result<CertifyResults, StartError> {
    let start_time = Instant::now();
    let progress = ProgressCounter::new(progress);
    // Both mostly wait for timeouts, so run them concurrently.
    let (agents, targets) = tokio::join!(
        agents(options, stop, &progress),
        targets(options, stop, &progress),
    );
    let mut outcome = CertifyResults::default();
    outcome.add(agents?);
    outcome.add(targets?);
    outcome.partial = stop.load(Ordering::Relaxed);
    outcome.wall_ms = start_time.elapsed().as_secs_f64() * 1000.0;
    Ok(outcome)
}

/// Tests the mocks that use stdio.
async fn agents(
    options: &SelftestOptions,
    stop: &'static AtomicBool,
    progress: &ProgressCounter,
) -> Result<CertifyResults, StartError> {
    let bench = |kind| StdioMocks::new(kind, options, stop);
    let (acp, next, mcp) = (
        bench(AgentKind::Acp)?,
        bench(AgentKind::AcpV2)?,
        bench(AgentKind::Mcp)?,
    );
    let mut outcome = common::run(&acp, progress).await;
    let (next, mcp) = tokio::join!(common::run(&next, progress), common::run(&mcp, progress));
    outcome.add(next);
    outcome.add(mcp);
    Ok(outcome)
}

/// Tests the generated targets.
async fn targets(
    options: &SelftestOptions,
    stop: &'static AtomicBool,
    progress: &ProgressCounter,
) -> Result<CertifyResults, StartError> {
    let (mutants, variants) = (lifecycle::mutants(), lifecycle::variants());
    let bundles = GeneratedTargets::new(Bundles, mutants, variants, options, stop);
    let mut outcome = common::run(&bundles, progress).await;
    if stop.load(Ordering::Relaxed) {
        return Ok(outcome);
    }
    let stage = sessions::HostBench::open().map_err(|reason| StartError::Failed {
        program: "agentproto".to_owned(),
        reason,
    })?;
    let (mutants, variants) = (sessions::mutants(), sessions::variants());
    let hosts = GeneratedTargets::new(stage, mutants, variants, options, stop);
    outcome.add(common::run(&hosts, progress).await);
    hosts.runner.close().await;
    Ok(outcome)
}

fn is_finding(row: &&CaseResult) -> bool {
    matches!(row.verdict, Verdict::Fail | Verdict::Warn | Verdict::Error)
}
