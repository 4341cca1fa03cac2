//! Self-test of `aoi-lint`: every mutant of the mock tool must be caught by its own check, and
//! conforming tools must not get any finding, in any variant and in any repetition.

mod tool_run;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::common::{self, MutantResult, VariantResult};
use agentproto_aoi::LintError;
use agentproto_aoi::model::{CheckId, Finding, Report, Verdict};
use agentproto_aoi::rules::{self, Level};
use agentproto_aoi::session::LintOptions;
use agentproto_aoi::shared::{RunSlots, SharedEnvironment};
use agentproto_mock::mutants::aoi as mutants;
use agentproto_mock::mutants::aoi::AoiMutant;
use agentproto_mock::variants::aoi as variants;
use agentproto_mock::variants::aoi::AoiVariant;
use tool_run::ToolRun;

/// Maximum number of tools that are tested at the same time. `RunSlots` limits their runs.
const MAX_TOOLS: usize = 12;
/// Maximum number of concurrent runs that mostly wait, over all tools.
const MAX_WAITING: usize = 40;
/// Maximum number of concurrent runs of the tool that sleeps at startup.
const MAX_SLEEPING: usize = 16;
/// Time limit of a run. The mock tool answers within milliseconds, so a longer run hangs.
const LIMIT: Duration = Duration::from_secs(6);
/// Number of repetitions of the timing-sensitive checks on the conforming tool.
const REPEATS: usize = 20;
/// Maximum number of repetitions that run at the same time.
const MAX_REPEATS_AT_ONCE: usize = 4;
/// Stack size in bytes. All checks together are one deep future, even deeper without optimization.
const STACK_BYTES: usize = 32 << 20;
const REPEATED: &str = "repeats";
const CONFORMING: &str = "conforming";
/// The variant that sleeps at startup.
const SLEEPER: &str = "slow-start";
/// Checks that depend on signals and pipes, and so on timing.
const TIMED: [CheckId; 2] = [CheckId::Number(3), CheckId::Number(10)];

/// Result for a mutant.
#[derive(Clone, Debug, Serialize)]
pub struct AoiMutantRow {
    /// Id of the mutant.
    pub mutant: String,
    /// Check that must find it.
    pub check: CheckId,
    /// Rule that it breaks.
    pub rule: String,
    /// Its defect.
    #[serde(rename = "wrong")]
    pub defect: String,
    /// Whether anything was found that is not found on the correct tool.
    pub killed: bool,
    /// Whether its own check found it.
    pub attributed: bool,
    /// Whether the rule that it breaks found it.
    pub named: bool,
    /// Rules that found something.
    pub found: Vec<String>,
}

/// Result for a conforming variant.
#[derive(Clone, Debug, Serialize)]
pub struct AoiVariantRow {
    /// Name of the variant.
    pub variant: String,
    /// How it differs.
    pub what: String,
    /// Number of conforming pairs. Zero means that the variant was not really tested.
    #[serde(rename = "proven")]
    pub verified: usize,
    /// Findings, which are all false positives.
    #[serde(rename = "blamed")]
    pub false_positives: Vec<String>,
}

impl MutantResult for AoiMutantRow {
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
            _ if self.named => return None,
            true => format!("expected {}, found {}", self.rule, self.found.join(", ")),
            false => "SURVIVED".to_owned(),
        };
        Some(format!("{}: {how}", self.mutant))
    }
}

impl VariantResult for AoiVariantRow {
    fn name(&self) -> &str {
        &self.variant
    }
    fn verified(&self) -> usize {
        self.verified
    }
    fn false_positives(&self) -> &[String] {
        &self.false_positives
    }
    fn problems(&self) -> Vec<String> {
        let findings = self.false_positives.iter();
        findings
            .map(|what| format!("{}: {what}", self.variant))
            .collect()
    }
}

/// Results of the self-test.
#[derive(Clone, Debug, Default)]
pub struct AoiResults {
    /// Results for mutants and variants.
    pub results: common::SelftestResults<AoiMutantRow, AoiVariantRow>,
    /// Number of repetitions of the timing-sensitive checks.
    pub repeats: usize,
    /// Number of repetitions with other verdicts than the first.
    pub flakes: usize,
    /// The differences, one line each.
    pub flaky: Vec<String>,
}

impl AoiResults {
    /// Number of mutants that were caught by the rule that they break.
    pub fn named(&self) -> usize {
        self.results.mutants.iter().filter(|m| m.named).count()
    }

    /// Whether everything that was tested has the expected result.
    pub fn is_clean(&self) -> bool {
        self.results.killed() == self.results.mutants.len()
            && self.results.false_positive_count() == 0
            && self.flakes == 0
            && !self.results.partial
    }

    /// Whether nothing was tested.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty() && self.repeats == 0
    }

    /// Compares each repetition with the first.
    fn compare(&mut self, repeats: impl IntoIterator<Item = RepeatVerdicts>) {
        let mut first: Option<RepeatVerdicts> = None;
        for verdicts in repeats {
            self.repeats += 1;
            match &first {
                Some(first) => {
                    let differs = differences(first, &verdicts);
                    self.flakes += usize::from(!differs.is_empty());
                    let repeat = self.repeats;
                    let lines = differs
                        .iter()
                        .map(|text| format!("repeat {repeat}: {text}"));
                    self.flaky.extend(lines);
                }
                None => first = Some(verdicts),
            }
        }
    }

    /// Whether a complete run passed: every mutant killed, at least 98 % by their own check, no
    /// false positives, and no flaky checks.
    pub fn is_sound(&self) -> bool {
        let (all, attributed) = (self.results.mutants.len(), self.results.attributed());
        !self.results.partial
            && all > 0
            && self.results.killed() == all
            && attributed * 100 >= all * 98
            && self.repeats > 1
            && self.flakes == 0
            && self.results.has_no_false_positives()
    }
}

/// Verdicts of one repetition of the timing-sensitive checks, by rule and command.
type RepeatVerdicts = BTreeMap<String, (Verdict, String)>;

/// Runs the self-test. `only` contains ids of mutants, names of variants or `repeats`. If it is
/// empty, everything runs.
pub fn run(
    only: &[String],
    quick: bool,
    tokio: &Handle,
    stop: &'static AtomicBool,
    on_finished: &dyn Fn(&str),
) -> Result<AoiResults, LintError> {
    let start_time = Instant::now();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    let bench = tokio.block_on(TestBench::new(quick, stop))?;
    let mut outcome = AoiResults::default();

    // Start the slowest variant first.
    let mut variants: Vec<(usize, &AoiVariant)> = variants::VARIANTS.iter().enumerate().collect();
    variants.retain(|(_, variant)| wanted(variant.name));
    variants.sort_by_key(|(_, variant)| variant.name != SLEEPER);
    let mut trials: Vec<Job> = Vec::new();
    for (place, variant) in variants {
        trials.push(Job::Variant(place, variant));
    }
    if wanted(CONFORMING) {
        trials.push(Job::Conforming);
    }
    let mutants = mutants::all().enumerate().filter(|(_, m)| wanted(m.id));
    trials.extend(mutants.map(|(place, mutant)| Job::Mutant(place, mutant)));
    let (mut variants, mut mutants) = (BTreeMap::new(), BTreeMap::new());
    let work = |job: &Job| tokio.block_on(bench.run_job(job));
    run_parallel(&trials, MAX_TOOLS, stop, work, |_, row| match row {
        JobResult::Variant(place, row) => {
            on_finished(&row.variant);
            variants.insert(place, row);
        }
        JobResult::Mutant(place, row) => {
            on_finished(&row.mutant);
            mutants.insert(place, row);
        }
    })?;
    outcome.results.variants = variants.into_values().collect();
    outcome.results.mutants = mutants.into_values().collect();

    if wanted(REPEATED) {
        let mut verdicts = BTreeMap::new();
        let work = |_: &()| tokio.block_on(bench.repeat());
        run_parallel(
            &[(); REPEATS],
            MAX_REPEATS_AT_ONCE,
            stop,
            work,
            |place, one| {
                on_finished(REPEATED);
                verdicts.insert(place, one);
            },
        )?;
        outcome.compare(verdicts.into_values());
    }
    outcome.results.partial = stop.load(Ordering::Relaxed);
    outcome.results.wall_ms = start_time.elapsed().as_secs_f64() * 1000.0;
    Ok(outcome)
}

/// Runs `work` on all items with several threads, and reports each result when it is ready. The
/// first error or a signal stops it.
fn run_parallel<T: Sync, R: Send>(
    all: &[T],
    threads: usize,
    stop: &AtomicBool,
    work: impl Fn(&T) -> Result<R, LintError> + Sync,
    mut on_finished: impl FnMut(usize, R),
) -> Result<(), LintError> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let is_over = || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(all.len()) {
            let sender = sender.clone();
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let started = thread.spawn_scoped(scope, || {
                let sender = sender;
                while !is_over() {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(place) else { break };
                    let _ = sender.send((place, work(one)));
                }
            });
            started.map_err(LintError::Thread)?;
        }
        drop(sender);
        let mut first = Ok(());
        for (place, done) in receiver {
            match done {
                // Ignore results after a signal, because they may be incomplete.
                Ok(_) if stop.load(Ordering::Relaxed) => {}
                Ok(done) => on_finished(place, done),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    first = first.and(Err(error));
                }
            }
        }
        first
    })
}

/// Differences between a repetition and the first.
fn differences(first: &RepeatVerdicts, verdicts: &RepeatVerdicts) -> Vec<String> {
    let keys: BTreeSet<&String> = first.keys().chain(verdicts.keys()).collect();
    let of = |verdicts: &RepeatVerdicts, key: &str| match verdicts.get(key) {
        Some((verdict, message)) => format!("{} ({message})", verdict.as_str()),
        None => "no verdict".to_owned(),
    };
    let verdict =
        |verdicts: &RepeatVerdicts, key: &str| verdicts.get(key).map(|(verdict, _)| *verdict);
    keys.into_iter()
        .filter(|key| verdict(first, key) != verdict(verdicts, key))
        .map(|key| format!("{key}: {}, first run {}", of(verdicts, key), of(first, key)))
        .collect()
}

/// A tool to test, and its index in the list of its kind.
enum Job {
    Conforming,
    Variant(usize, &'static AoiVariant),
    Mutant(usize, &'static AoiMutant),
}

enum JobResult {
    Variant(usize, AoiVariantRow),
    Mutant(usize, AoiMutantRow),
}

/// The environment in which all tools are tested.
struct TestBench {
    environment: SharedEnvironment,
    /// Separate environment for the tool that sleeps, because it would block the others.
    slow_environment: SharedEnvironment,
    /// Report on the correct tool.
    conforming: OnceCell<Report>,
    quick: bool,
    stop: &'static AtomicBool,
}

impl TestBench {
    async fn new(quick: bool, stop: &'static AtomicBool) -> Result<TestBench, LintError> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let probe = ToolRun::default().probe()?;
        let slots = RunSlots::with_waiting(2 * cores, MAX_WAITING);
        Ok(TestBench {
            environment: agentproto_aoi::shared_environment(&probe, slots).await?,
            slow_environment: agentproto_aoi::shared_environment(
                &probe,
                RunSlots::new(MAX_SLEEPING),
            )
            .await?,
            conforming: OnceCell::new(),
            quick,
            stop,
        })
    }

    async fn conforming(&self) -> Result<&Report, LintError> {
        let results = async || self.try_one(&ToolRun::default()).await;
        self.conforming.get_or_try_init(results).await
    }

    async fn run_job(&self, job: &Job) -> Result<JobResult, LintError> {
        Ok(match *job {
            // Index 0, before all variants.
            Job::Conforming => {
                let report = self.conforming().await?;
                JobResult::Variant(0, row(CONFORMING, "the correct mock tool", report, &[]))
            }
            Job::Variant(place, variant) => {
                let tool_run = ToolRun::variant(variant.name, self.quick);
                let report = self.try_one(&tool_run).await?;
                let row = row(
                    variant.name,
                    variant.description,
                    &report,
                    variant.expected_warnings,
                );
                JobResult::Variant(place + 1, row)
            }
            Job::Mutant(place, mutant) => JobResult::Mutant(place, self.mutant(mutant).await?),
        })
    }

    /// Tests a mutant. A quick run starts with its own check on its own command, then all checks
    /// on that command, then its own check on all commands. It runs all checks on all commands
    /// only if nothing else finds the defect.
    async fn mutant(&self, mutant: &'static AoiMutant) -> Result<AoiMutantRow, LintError> {
        let own_check = check_of(mutant.id);
        let trials = match self.quick {
            true => vec![
                ToolRun::own_check_and_command(mutant, own_check),
                ToolRun::own_command(mutant),
                ToolRun::own_check(mutant, own_check),
                ToolRun::all_checks(mutant),
            ],
            false => vec![ToolRun::all_checks(mutant)],
        };
        let mut found = Vec::new();
        for tool_run in trials {
            let report = self.try_one(&tool_run).await?;
            let usual: BTreeSet<String> = findings_of(self.conforming().await?).map(key).collect();
            found = new_findings(&report, &usual, mutant);
            if found.iter().any(|f| f.rule == mutant.requirement) {
                break;
            }
        }
        Ok(AoiMutantRow {
            mutant: mutant.id.to_owned(),
            check: own_check,
            rule: mutant.requirement.to_owned(),
            defect: mutant.defect.to_owned(),
            killed: !found.is_empty(),
            attributed: found.iter().any(|f| f.check == own_check),
            named: found.iter().any(|f| f.rule == mutant.requirement),
            found: found.iter().map(|f| f.rule.clone()).collect(),
        })
    }

    async fn repeat(&self) -> Result<RepeatVerdicts, LintError> {
        let tool_run = ToolRun {
            checks: TIMED.to_vec(),
            ..ToolRun::default()
        };
        let report = self.try_one(&tool_run).await?;
        let verdicts = report.checks.iter();
        Ok(verdicts
            .map(|f| (key(f), (f.verdict, f.message.clone())))
            .collect())
    }

    async fn try_one(&self, tool_run: &ToolRun) -> Result<Report, LintError> {
        let environment = match tool_run.name == SLEEPER {
            true => &self.slow_environment,
            false => &self.environment,
        };
        let options = LintOptions {
            only: tool_run.checks.clone(),
            limit: LIMIT,
            discovery_limit: LIMIT,
            ..LintOptions::default()
        };
        agentproto_aoi::lint_in(
            environment,
            Instant::now(),
            tool_run.probe()?,
            options,
            self.stop,
        )
        .await
    }
}

/// Rules with the verdict fail, warn or error.
fn findings_of(report: &Report) -> impl Iterator<Item = &Finding> {
    let is_broken =
        |f: &&Finding| matches!(f.verdict, Verdict::Fail | Verdict::Warn | Verdict::Error);
    report.checks.iter().filter(is_broken)
}

fn key(finding: &Finding) -> String {
    format!("{} {}", finding.rule, finding.command)
}

/// Findings on the mutant that the correct tool does not have. A mutant that breaks a MUST must
/// have the verdict fail.
fn new_findings(report: &Report, usual: &BTreeSet<String>, mutant: &AoiMutant) -> Vec<Finding> {
    let is_must = rules::find(mutant.requirement).is_none_or(|rule| rule.level == Level::Must);
    let counts = |f: &&Finding| match mutant.verdict {
        // A tool that hides its state cannot be verified, and the report must say so.
        mutants::ExpectedVerdict::NotVerified => {
            !matches!(f.verdict, Verdict::Pass | Verdict::NotApplicable)
        }
        _ if is_must => f.verdict == Verdict::Fail,
        _ => matches!(f.verdict, Verdict::Fail | Verdict::Warn),
    };
    let found = report.checks.iter().filter(counts);
    found
        .filter(|f| !usual.contains(&key(f)))
        .cloned()
        .collect()
}

fn row(name: &str, what: &str, report: &Report, allowed: &[&str]) -> AoiVariantRow {
    let excused = |f: &&Finding| f.verdict == Verdict::Warn && allowed.contains(&f.rule.as_str());
    AoiVariantRow {
        variant: name.to_owned(),
        what: what.to_owned(),
        verified: report.summary.pairs_proven,
        false_positives: findings_of(report)
            .filter(|f| !excused(f))
            .map(|f| format!("{} {}: {}", f.rule, f.command, f.message))
            .collect(),
    }
}

/// Check of a mutant: `aoi-03-…` belongs to check 3.
fn check_of(id: &str) -> CheckId {
    let number = id.split('-').nth(1).and_then(|part| part.parse().ok());
    number.map_or(CheckId::Advisory, CheckId::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_repetitions_are_reported() {
        let verdicts = |verdict| -> RepeatVerdicts {
            let row = |verdict| (verdict, "seen".to_owned());
            [
                ("a".to_owned(), row(Verdict::Pass)),
                ("b".to_owned(), row(verdict)),
            ]
            .into()
        };
        let mut outcome = AoiResults::default();
        let mut shorter = verdicts(Verdict::Pass);
        shorter.remove("a");
        let pass = || verdicts(Verdict::Pass);
        outcome.compare([pass(), pass(), verdicts(Verdict::NotVerified), shorter]);
        assert_eq!((outcome.repeats, outcome.flakes), (4, 2));
        let lines = [
            "repeat 3: b: not_verified (seen), first run pass (seen)",
            "repeat 4: a: no verdict, first run pass (seen)",
        ];
        assert_eq!(outcome.flaky, lines);
        assert!(!outcome.is_clean() && !outcome.is_sound());
    }
}
